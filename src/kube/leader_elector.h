// kube/leader_elector.h
//
// Takes part in a leader election through a client.
//
//   LeaderElector elector = ...create(client, {.namespace_name = "kube-system", .lease = "tessera-extender",
//                                              .election = {.identity = pod_name + "_" + random}},
//                                     [](bool leading) { ... });
//   elector.start();
//   ... before each bind: if (!elector.leading()) refuse; request.deadline = elector.time_left();
//
// All on the loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "kube/client.h"
#include "kube/leader_election.h"

namespace tessera::kube {

struct LeaderElectorOptions {
  std::string namespace_name{};
  std::string lease{};
  LeaderElectionOptions election{};
};

class LeaderElector {
 public:
  // Called when it changes; also when a lease ran out because nobody answered.
  using OnChange = std::function<void(bool leading)>;

  // `client` must outlive it. kInvalid for times or names that cannot work.
  static Result<std::unique_ptr<LeaderElector>> create(Client& client, LeaderElectorOptions options,
                                                       OnChange on_change);
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;
  ~LeaderElector() = default;

  void start();
  // Stops leading now, tells the others, and calls `done` when they have been told or cannot be.
  void hand_over(std::function<void()> done);

  [[nodiscard]] bool leading() const { return election_.leading(); }
  // For what a leader starts now; 0 when we do not lead. A request with this deadline is over, on the server
  // too, before another can lead.
  [[nodiscard]] std::chrono::milliseconds time_left() const;
  [[nodiscard]] Clock::Steady valid_until() const { return election_.valid_until(); }
  [[nodiscard]] const std::string& holder() const { return election_.holder(); }

 private:
  LeaderElector(Client& client, LeaderElectorOptions options, LeaderElection election, OnChange on_change);

  void step();
  void answered(LeaderElection::Ask ask, const Result<Reply>& reply);
  void schedule();
  void release();
  void tell();
  [[nodiscard]] Request request_for(const LeaderElection::Step& step) const;

  Client& client_;
  const LeaderElectorOptions options_;
  LeaderElection election_;
  OnChange on_change_;
  std::function<void()> on_released_;  // set while we hand over
  bool told_ = false;
  Call call_;
  http::Timer timer_;
  http::Timer expiry_;  // fires when the lease runs out, so that the loss is told without any answer
};

}  // namespace tessera::kube
