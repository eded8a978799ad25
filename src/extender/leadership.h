// extender/leadership.h
//
// Decides whether this replica may bind pods.
//
// Behind a Service, the replicas elect a leader with a Lease of their own. The leader's pod gets
// the label that the Service selects. A sidecar leads while the kube-scheduler of its pod leads.
// Without the setting `schedulerLease`, a sidecar always leads.
//
// In all cases, a replica that starts to lead must list the pods before it binds (freshness.h).
//
// Used only on the event loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "extender/config.h"
#include "extender/freshness.h"
#include "extender/leader_label.h"
#include "extender/scheduler_lease.h"
#include "kube/client.h"
#include "kube/leader_elector.h"
#include "kube/reflector.h"

namespace tessera::extender {

// The permission that the binder needs before it writes. An interface, so that tests can replace
// it.
class BindPermission {
 public:
  virtual ~BindPermission() = default;

  // Returns how long this replica may write binds from now on. 0 or less: not at all.
  virtual std::chrono::milliseconds time_left() = 0;
  // Returns true if this replica leads, is not allowed to bind yet, and will be allowed in a
  // moment.
  [[nodiscard]] virtual bool starts_soon() const = 0;
};

class Leadership final : public BindPermission {
 public:
  // `client`, `config` and `pods` (the watch on pods) must outlive this object.
  Leadership(kube::Client& client, const Config& config, OwnPod own_pod, kube::Reflector& pods);

  // Prepares the election. Returns kInvalid if POD_NAME is needed and not set.
  Status prepare();
  void start();
  // Sets the leader label again, in case another client removed it. Call it periodically.
  void refresh_label();
  // Releases the Lease, then calls `done`. No write may be in flight.
  void release(const std::function<void()>& done);

  std::chrono::milliseconds time_left() override;
  [[nodiscard]] bool starts_soon() const override;

  // Returns whether this replica leads. It may still have to list the pods before it binds.
  [[nodiscard]] bool leads() const { return lead_time_left().count() > 0; }
  // Returns whether this replica leads and has listed the pods since it started to lead.
  [[nodiscard]] bool may_bind() const { return leads() && !freshness_.awaits_list(); }
  // Returns whether this replica takes part in an election and another one leads.
  [[nodiscard]] bool follows() const { return elector_ != nullptr && !elector_->leading(); }
  // For a sidecar that has not read the Lease of kube-scheduler yet, returns the reason. Otherwise
  // returns "".
  [[nodiscard]] std::string not_known() const;
  // Returns the watch on the Lease of kube-scheduler, or null if that Lease is not watched.
  [[nodiscard]] const kube::Reflector* lease_watch() const;

 private:
  Status prepare_sidecar();
  Status prepare_replica();
  // Returns the longest time that a write of this extender may take.
  [[nodiscard]] std::chrono::milliseconds write_time() const;
  // Returns how long this replica still leads if the Lease is not renewed. Returns at most
  // write_time().
  [[nodiscard]] std::chrono::milliseconds lead_time_left() const;

  kube::Client& client_;
  const Config& config_;
  const OwnPod own_pod_;
  Freshness freshness_;
  LeaderLabel label_;
  std::unique_ptr<kube::LeaderElector> elector_;     // null for a sidecar
  std::unique_ptr<SchedulerLease> scheduler_lease_;  // only for a sidecar with `schedulerLease`
};

}  // namespace tessera::extender
