// extender/scheduler_lease.h
//
// Watches the Lease of kube-scheduler, to know whether the kube-scheduler in the same pod (our
// scheduler) leads. kube-scheduler itself does not report whether it leads.
//
// Start: before the first bind for a new leader, its extender must know what other extenders bound.
// A kube-scheduler that shuts down releases its Lease immediately, even while its extender still
// writes. The next scheduler may take the Lease at that moment. So this class waits until no such
// write can be in progress, and then calls `on_lead`. No wait is needed in two cases:
//   - The Lease expired. No write outlives the Lease.
//   - Our scheduler held the Lease before. The ledger has its writes.
// If a client deletes the Lease, another scheduler may create it immediately. The previous holder
// still leads until it has failed to renew for a while, and the watch of its extender may be late.
// So this class then waits for the whole time in which the last renewal lets that holder lead.
//
// End: if our scheduler has not renewed the Lease for a while, another scheduler may take it.
// If our scheduler was stopped (SIGSTOP) and continues, it may still request a bind that it
// decided earlier. The extender must reject that bind. Scheduler and extender of one pod share a
// clock, so the renew time in the Lease is reliable.
//
// Used only on the event loop's thread.
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
    // The longest time that a write of another extender can take.
    std::chrono::milliseconds write_time{0};
  };
  // The extender of the previous leader may notice the release of the Lease later than this
  // extender, by at most this time.
  static constexpr std::chrono::milliseconds kWatchDelay{250};

  // `client` must outlive this object. Calls `on_lead` when our scheduler has taken the Lease
  // and no other extender can still be writing.
  SchedulerLease(kube::Client& client, const Options& options, std::function<void()> on_lead);

  void start() { watch_.start(); }

  // Returns how long our scheduler still leads if it does not renew its Lease. Returns 0 or
  // less if it does not lead, if the leader is not known yet, or before `on_lead` is called.
  [[nodiscard]] std::chrono::milliseconds time_left() const;
  // Returns true if our scheduler has the Lease, but other extenders may still be writing.
  [[nodiscard]] bool waits() const { return others_write_timer_.pending(); }
  // If the Lease has not been read yet, returns the reason. Otherwise returns "".
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
  const std::string own_prefix_;  // prefix of our scheduler's identity
  std::function<void()> on_lead_;
  LeaseSpec decoded_;  // set by decode()
  std::string holder_;
  std::string uid_;  // of the last Lease that was seen
  // Until when extenders of other pods may be writing. Unknown counts as forever.
  Clock::Steady others_write_until_ = Clock::Steady::max();
  // Pending while our scheduler has the Lease and others_write_until_ is in the future.
  http::Timer others_write_timer_;
  // The time until which our scheduler leads, by both clocks. In the past if our scheduler
  // does not lead.
  Clock::Steady until_{};
  Clock::Wall until_wall_{};
  kube::Reflector watch_;
};

}  // namespace tessera::extender
