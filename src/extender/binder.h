// extender/binder.h
//
// Binds pods: reserve the GPUs in the ledger, ONE write to the API server, commit or release.
//
// These hold whatever fails and however often kube-scheduler asks:
//   - The ledger reserves a GPU before the write and frees it only when it is certain that the pod
//     is not bound. If the response was lost, GETs find out; until then the GPU stays reserved.
//   - A bind that is in flight or done is not started again. Another call for the same node gets
//     the same result, a call for another node an error.
//   - No write outlives the time for which this replica may bind (leadership.h).
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
#include "extender/context.h"
#include "extender/leadership.h"
#include "extender/unseen_pods.h"

namespace tessera::extender {

struct BinderOptions {
  // Limit for the write and everything before and after it. It must be less than the time between a
  // scheduler losing its Lease and another one taking it (5 s by default), so that no bind is
  // written after that.
  std::chrono::milliseconds timeout{4'000};
  // How long kube-scheduler waits for a result while the outcome of the write is unknown.
  std::chrono::milliseconds answer_within{8'000};
  // Time between two GETs that find out the outcome.
  std::chrono::milliseconds ask_again{500};
  // Time after which the watch should have shown a bound pod.
  std::chrono::milliseconds unseen_for{30'000};
  // How long a bind waits that arrives shortly before this replica may bind.
  std::chrono::milliseconds early_for{4'000};
  std::size_t most_at_once = 1024;
};

// Bind calls by result, for metrics.
struct BindCounts {
  std::uint64_t bound = 0;
  std::uint64_t repeated = 0;  // calls for a bind that is in flight or done
  std::uint64_t no_room = 0;   // the GPUs are no longer free
  std::uint64_t refused = 0;   // certainly rejected by the API server
  std::uint64_t unknown = 0;   // the response was lost
  std::uint64_t not_leading = 0;
  std::uint64_t invalid = 0;
};

class Binder {
 public:
  // Gets "" if the pod is bound, else the reason, which kube-scheduler shows.
  using Done = std::function<void(const std::string& error)>;

  // The parts of `context` and `permission` must outlive this object.
  Binder(const Context& context, BindPermission& permission, BinderOptions options);
  Binder(const Binder&) = delete;
  Binder& operator=(const Binder&) = delete;
  ~Binder();

  // Binds the pod and calls `done` once, possibly before it returns. If this replica may bind in a
  // moment, the bind waits for that: kube-scheduler would retry a rejected pod only after 1, 2, 4
  // ... s.
  void bind(const BindArgs& args, Done done);

  // Calls `done` when no write is in flight, possibly before it returns. Call it when no more binds
  // will be requested, before another replica may lead.
  void after_writes(std::function<void()> done);

  // Asks about bound pods that no watch has shown (unseen_pods.h). Call it now and then.
  void check_unseen() { unseen_.check(); }

  [[nodiscard]] const BindCounts& counts() const { return counts_; }
  // Number of binds whose outcome is not known yet.
  [[nodiscard]] std::size_t in_flight() const { return flights_.size(); }

 private:
  struct Flight;
  using FlightPtr = std::shared_ptr<Flight>;
  struct Early {
    BindArgs args;
    Done done;
    Clock::Steady until{};
  };

  [[nodiscard]] bool may_bind_soon();
  void retry_early();
  void begin(const BindArgs& args, Done done);
  void fetch_pod(const FlightPtr& flight);
  void handle_pod(const FlightPtr& flight, Result<kube::Reply> reply);
  void decide(const FlightPtr& flight, const WaitingPod& pod);
  Result<kube::Request> reserve(Flight& flight, const WaitingPod& pod);
  void handle_write(const FlightPtr& flight, Result<kube::Reply> reply);
  void answer_in_time(const FlightPtr& flight);
  void ask_outcome(const FlightPtr& flight);
  void handle_outcome(const FlightPtr& flight, Result<kube::Reply> reply);
  void ask_outcome_later(const FlightPtr& flight);
  void succeed(const FlightPtr& flight);
  void fail_bind(const FlightPtr& flight, const std::string& reason);
  void answer(Flight& flight, const std::string& error);
  void end(const FlightPtr& flight);

  kube::Client& client_;
  ClusterState& state_;
  kube::EventSink& events_;
  Metrics& metrics_;
  BindPermission& permission_;
  const BinderOptions options_;
  ArgsReader reader_;
  UnseenPods unseen_;
  BindCounts counts_;
  std::unordered_map<std::string, FlightPtr> flights_;  // by UID
  std::vector<Early> early_;
  http::Timer early_timer_;
  std::size_t writes_ = 0;  // in flight
  std::function<void()> after_writes_;
  std::int64_t last_assume_time_ns_ = 0;
};

}  // namespace tessera::extender
