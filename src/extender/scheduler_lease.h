// extender/scheduler_lease.h
//
// Whether the kube-scheduler beside this extender leads. Only its Lease tells; kube-scheduler itself says
// nothing.
//
// When it begins to, it will ask for binds, and what another extender bound until now must be known first. A
// kube-scheduler that is told to end gives its Lease back at once, without a thought for what the extender
// beside it is just writing, and the next may take it in the same moment. So this one waits first until no
// such write can be under way. Nobody has to wait after a Lease that ran out (no write outlives that), or one
// that was the own scheduler's before (its writes stand in the state).
//
// When it has not renewed the Lease for a while, another scheduler may take it and ask its own extender: a
// pod that was stopped and goes on may still ask for what it had decided before, and that must not be done
// any more. kube-scheduler and this extender are in one pod, so they have one clock, and the time in the
// Lease can be believed.
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
    // The longest that a write of an extender like this one can take.
    std::chrono::milliseconds write_time{0};
  };
  // How much later than this one the extender of the scheduler before may hear that its Lease was given back.
  static constexpr std::chrono::milliseconds kLateNews{250};

  // `client` must live longer. `on_lead` is called when the Lease has gone to a scheduler of the own pod and
  // nobody else's write can be under way; until it comes back, time_left() is 0.
  SchedulerLease(kube::Client& client, const Options& options, std::function<void()> on_lead);

  void start() { watch_.start(); }

  // For how long the scheduler leads if it does not renew its Lease; 0 or less when it does not lead, or when
  // that is not known yet.
  [[nodiscard]] std::chrono::milliseconds time_left() const;
  // Whether it leads and only has to wait for others, before on_lead.
  [[nodiscard]] bool waits() const { return others_end_.pending(); }
  // What is missing to know who leads; "" when nothing is.
  [[nodiscard]] std::string not_known() const;
  [[nodiscard]] const kube::Reflector& watch() const { return watch_; }

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;
  void unreadable(const kube::ObjectMeta& meta, const Error& error) override;

 private:
  void begin_to_lead();
  void stop_leading();

  struct Claim {
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
  Claim read_;  // by decode()
  std::string holder_;
  // Until when extenders of other pods may be writing, as far as is known; what is not known counts as long.
  Clock::Steady others_until_ = Clock::Steady::max();
  http::Timer others_end_;  // runs while the own scheduler leads and has to wait for that
  // Until when the own scheduler may act, by both clocks; in the past when it does not lead.
  Clock::Steady until_{};
  Clock::Wall until_wall_{};
  kube::Reflector watch_;
};

}  // namespace tessera::extender
