// extender/binder.h
//
// Binds pods: reserve, ONE write to the API server, commit or release.
//
// What holds, whatever fails and however often we are asked:
//   - a GPU is taken out of the free pool before the write and goes back only when it is certain that the pod
//     is not bound. Where a reply was lost, a GET tells; until then the reservation stays;
//   - a bind that is under way, or done, is not started again: who asks again for the same node gets the
//     same answer, who asks for another node an error;
//   - no write outlives the time for which we may act (the leader's lease).
//
// On the event loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "extender/args.h"
#include "extender/books.h"
#include "kube/client.h"
#include "kube/event_sink.h"

namespace tessera::extender {

struct BinderOptions {
  // For the write with everything before and after it. Less than the time between a scheduler's
  // losing its lease and another one's taking it (5 s by default), so that a bind cannot come after
  // that.
  std::chrono::milliseconds timeout{4'000};
  // How long kube-scheduler is kept waiting while it is unknown what became of the write.
  std::chrono::milliseconds answer_within{8'000};
  // Between two questions what became of it.
  std::chrono::milliseconds ask_again{500};
  // After which the watch should have shown a bound pod.
  std::chrono::milliseconds unseen_for{30'000};
  // How long a bind waits that comes when we may not act yet but are about to.
  std::chrono::milliseconds early_for{4'000};
  std::size_t most_at_once = 1024;
};

// What became of binds, for metrics.
struct BindCounts {
  std::uint64_t bound = 0;
  std::uint64_t repeated = 0;  // asked again for what was done or under way
  std::uint64_t no_room = 0;   // the GPUs had gone since filter
  std::uint64_t refused = 0;   // by the API server, for certain
  std::uint64_t unknown = 0;   // the reply was lost
  std::uint64_t not_leading = 0;
  std::uint64_t invalid = 0;
};

class Binder {
 public:
  // "" when the pod is bound, else why not, for kube-scheduler to show.
  using Done = std::function<void(const std::string& error)>;
  // For how long we may act; 0: not at all.
  using MayActFor = std::function<std::chrono::milliseconds()>;
  // How long the decision took, from the call to the write.
  using OnDecided = std::function<void(std::chrono::nanoseconds)>;

  // All must outlive it.
  Binder(kube::Client& client, Books& books, BinderOptions options, MayActFor may_act_for,
         kube::EventSink& events);
  Binder(const Binder&) = delete;
  Binder& operator=(const Binder&) = delete;
  ~Binder();

  void on_decided(OnDecided call) { on_decided_ = std::move(call); }
  // Tells, while we may not act, whether we are about to. Binds that come then wait for it:
  // kube-scheduler would try a pod that it is refused only after 1, 2, 4 ... s, and be late by as
  // much.
  void acts_soon(std::function<bool()> call) { acts_soon_ = std::move(call); }

  // `done` comes once, perhaps before this returns.
  void bind(const BindArgs& args, Done done);

  // Calls `done` as soon as no write is on its way, perhaps before this returns. For one who lets
  // another lead, when no bind is asked for any more.
  void after_writes(std::function<void()> done);

  // Asks after pods that stand in the books by a reply to us alone, because no watch has shown
  // them: one that was deleted in a gap of the watch would hold its GPUs for ever. To be called now
  // and then.
  void look_after_unseen();

  [[nodiscard]] const BindCounts& counts() const { return counts_; }
  // Binds whose outcome is not known yet.
  [[nodiscard]] std::size_t under_way() const { return flights_.size(); }

 private:
  struct Flight;
  using FlightPtr = std::shared_ptr<Flight>;
  struct Unseen {
    std::string pod_namespace;
    std::string pod;
    Clock::Steady since{};
    bool by_get = false;  // the books took over what a GET said, which may be older than what the watch said
  };
  struct Early {
    BindArgs args;
    Done done;
    Clock::Steady until{};
  };
  using UnseenPods = std::unordered_map<std::string, Unseen>;  // by UID

  [[nodiscard]] bool may_not_act_yet() const;
  void take_up_early();
  void begin(const BindArgs& args, Done done);
  void fetch_pod(const FlightPtr& flight);
  void decide(const FlightPtr& flight, const WaitingPod& pod);
  Result<kube::Request> reserve(Flight& flight, const WaitingPod& pod);
  void posted(const FlightPtr& flight, Result<kube::Reply> reply);
  void answer_in_time(const FlightPtr& flight);
  void ask(const FlightPtr& flight);
  void asked(const FlightPtr& flight, Result<kube::Reply> reply);
  void ask_later(const FlightPtr& flight);
  void succeed(const FlightPtr& flight);
  void give_back(const FlightPtr& flight, const std::string& why);
  void expect_on_watch(const Flight& flight, bool by_get);
  void judge_unseen(const std::string& uid, Result<kube::Reply> reply);
  void answer(Flight& flight, const std::string& error);
  void end(const FlightPtr& flight);
  void tell_failure(const Flight& flight, const std::string& why);

  kube::Client& client_;
  Books& books_;
  const BinderOptions options_;
  MayActFor may_act_for_;
  kube::EventSink& events_;
  OnDecided on_decided_;
  std::function<bool()> acts_soon_;
  ArgsReader reader_;
  BindCounts counts_;
  std::unordered_map<std::string, FlightPtr> flights_;  // by UID
  std::vector<Early> early_;
  http::Timer early_timer_;
  UnseenPods unseen_;
  kube::Call unseen_call_;
  std::size_t writes_ = 0;  // on their way
  std::function<void()> after_writes_;
  std::int64_t last_assume_time_ns_ = 0;
};

}  // namespace tessera::extender
