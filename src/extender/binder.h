// extender/binder.h
//
// Binds pods: reserves the GPUs in the ledger, sends one write to the API server, then commits or
// releases the reservation.
//
// Guarantees, whatever fails and however often kube-scheduler calls:
//   - The GPUs are reserved before the write. They are freed only when it is certain that the pod
//     is not bound. If the response to the write is lost, the binder sends GETs until it knows the
//     outcome. The GPUs stay reserved until then.
//   - A bind that is in flight or done is not started again. Another call for the same node gets
//     the same result; a call for another node gets an error. If the bind is done, the binder
//     first asks the API server. If a restore of etcd has undone the bind, the pod is bound again.
//   - No write outlives the time for which this replica may bind (leadership.h).
//
// Used only on the event loop's thread.
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
  // Deadline of the write, counted from the call. When a scheduler loses its Lease, some time
  // passes before another scheduler takes it (5 s by default). The deadline must be shorter than
  // that time, so that no write ends after another scheduler leads. Each GET that determines an
  // outcome has the same deadline.
  std::chrono::milliseconds timeout{4'000};
  // If the outcome is still unknown this long after the write was sent, kube-scheduler gets an
  // error.
  std::chrono::milliseconds answer_within{8'000};
  // Interval of the GETs that determine the outcome of a write whose response was lost.
  std::chrono::milliseconds ask_again{500};
  // If the watch has not shown a bound pod after this time, the binder asks the API server.
  std::chrono::milliseconds unseen_for{30'000};
  // If a bind call arrives shortly before this replica is allowed to bind, the call waits for the
  // permission. This is the longest wait.
  std::chrono::milliseconds early_for{4'000};
  // The most binds in flight. Also the most bind calls that wait because they arrived early.
  std::size_t most_at_once = 1024;
};

// Bind calls by result, for metrics.
struct BindCounts {
  std::uint64_t bound = 0;
  std::uint64_t repeated = 0;  // calls for a bind that is in flight or done
  std::uint64_t no_room = 0;   // the GPUs are no longer free
  std::uint64_t refused = 0;   // not bound for another reason, usually rejected by the API server
  std::uint64_t unknown = 0;   // the response was lost; counted again when the outcome is known
  std::uint64_t not_leading = 0;
  std::uint64_t invalid = 0;
};

class Binder {
 public:
  // Receives "" if the pod is bound, otherwise the reason. kube-scheduler shows the reason to
  // users.
  using Done = std::function<void(const std::string& error)>;

  // The parts of `context` and `permission` must outlive this object.
  Binder(const Context& context, BindPermission& permission, BinderOptions options);
  Binder(const Binder&) = delete;
  Binder& operator=(const Binder&) = delete;
  ~Binder();

  // Binds the pod and calls `done` once, possibly before bind() returns. If this replica will be
  // allowed to bind in a moment, the bind waits for the permission, because a rejected pod would
  // wait longer: kube-scheduler retries it after 1, 2, 4 ... s.
  void bind(const BindArgs& args, Done done);

  // Calls `done` when no write is in flight, possibly before after_writes() returns. Call it after
  // the last bind() and before the Lease is released.
  void after_writes(std::function<void()> done);

  // Asks the API server about bound pods that the watch has not shown (unseen_pods.h). Call it
  // periodically.
  void check_unseen() { unseen_.check(); }

  [[nodiscard]] const BindCounts& counts() const { return counts_; }
  // Returns whether the outcome of a bind to this node is not known yet.
  [[nodiscard]] bool binds_to(std::string_view node) const;
  // Number of binds whose outcome is not known yet.
  [[nodiscard]] std::size_t in_flight() const { return flights_.size(); }

 private:
  struct Flight;  // a bind whose outcome is not known yet
  using FlightPtr = std::shared_ptr<Flight>;
  // A bind that arrived shortly before this replica may bind.
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
  void handle_repeated(const FlightPtr& flight, Result<kube::Reply> reply);
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
  std::size_t writes_ = 0;  // number of writes in flight
  std::function<void()> after_writes_;
  std::int64_t last_assume_time_ns_ = 0;
};

}  // namespace tessera::extender
