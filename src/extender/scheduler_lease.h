// extender/scheduler_lease.h
//
// Knows whether the kube-scheduler in the same pod leads. The Lease is the only source;
// kube-scheduler does not report it.
//
// When the scheduler starts to lead, it asks for binds, and the extender must first know what other
// extenders bound. A kube-scheduler that shuts down releases its Lease at once, even while its
// extender still writes, and the next scheduler may take it in the same moment. So this class first
// waits until no such write can be in progress. No wait is needed if the Lease expired (no write
// outlives it), or if the own scheduler held it before (the ledger has its writes).
//
// If the scheduler has not renewed the Lease for a while, another one may take it and ask its own
// extender. A pod that was stopped and continues may still ask for a bind that it decided before;
// that bind must be refused. kube-scheduler and this extender are in one pod and share a clock, so
// the time in the Lease is reliable.
//
// On the event loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/clock.h"
#include "http/event_loop.h"
#include "kube/client.h"
#include "kube/object_sink.h"
#include "kube/reflector.h"

namespace tessera::extender {

class SchedulerLease final : public kube::ObjectSink {
 public:
  struct Options {
    std::string namespace_name;
    std::string name;
    std::string own_pod;
    // The longest time that a write of an extender can take.
    std::chrono::milliseconds write_time{0};
  };
  // How much later than this extender the previous one may learn that its Lease was released.
  static constexpr std::chrono::milliseconds kWatchDelay{250};

  // `client` must outlive this object. Calls `on_lead` when a scheduler of the own pod has taken
  // the Lease and no other extender can still be writing. Until `on_lead` returns, time_left() is
  // 0.
  SchedulerLease(kube::Client& client, const Options& options, std::function<void()> on_lead);

  void start() { watch_.start(); }

  // Returns how long the scheduler leads if it does not renew its Lease. 0 or less if it does not
  // lead, or if that is not known yet.
  [[nodiscard]] std::chrono::milliseconds time_left() const;
  // Returns whether the scheduler leads and on_lead waits for writes of others.
  [[nodiscard]] bool waits() const { return others_write_timer_.pending(); }
  // Returns why it is not known who leads; "" if it is known.
  [[nodiscard]] std::string not_known() const;
  [[nodiscard]] const kube::Reflector& watch() const { return watch_; }

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;
  void unreadable(const kube::ObjectMeta& meta, const Error& error) override;

 private:
  void begin_to_lead();
  void stop_leading();

  struct LeaseSpec {
    std::string holder{};
    std::chrono::seconds duration{0};
    std::string renewed{};  // RFC 3339
  };

  http::EventLoop& loop_;
  const Clock& clock_;
  const std::chrono::milliseconds write_time_;
  const std::string lease_;       // NAMESPACE/NAME
  const std::string own_prefix_;  // of the holder's identity
  std::function<void()> on_lead_;
  LeaseSpec decoded_;  // set by decode()
  std::string holder_;
  // Until when extenders of other pods may be writing. Unknown counts as forever.
  Clock::Steady others_write_until_ = Clock::Steady::max();
  // Runs while the own scheduler leads and waits for others_write_until_.
  http::Timer others_write_timer_;
  // Until when the own scheduler may act, by both clocks. In the past if it does not lead.
  Clock::Steady until_{};
  Clock::Wall until_wall_{};
  kube::Reflector watch_;
};

}  // namespace tessera::extender
