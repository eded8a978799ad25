// kube/leader_elector.h
//
// Participates in a leader election (leader_election.h) through a client.
//
//   auto elector = TRY(LeaderElector::create(client,
//                                            {.namespace_name = "kube-system",
//                                             .lease = "tessera-extender",
//                                             .election = {.identity = pod_name + "_" + random}},
//                                            [](bool leading) { ... }));
//   elector->start();
//   ... before each bind: if (!elector->leading()) refuse; request.deadline = elector->time_left();
//
// Use it only on the loop's thread.
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
  // Called when this process starts or stops leading. The process also stops leading when the Lease
  // expires because the API server does not respond.
  using OnChange = std::function<void(bool leading)>;

  // `client` must outlive the elector. Returns kInvalid for invalid times or names.
  static Result<std::unique_ptr<LeaderElector>> create(Client& client, LeaderElectorOptions options,
                                                       OnChange on_change);
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;
  ~LeaderElector() = default;

  void start();
  // Stops leading now and releases the Lease. Then calls `done`, even if the release failed.
  void hand_over(std::function<void()> done);

  [[nodiscard]] bool leading() const { return election_.leading(); }
  // Returns the deadline for a request that a leader sends now; 0 if this process does not lead.
  // The server has finished or aborted a request with this deadline before another process can
  // lead.
  [[nodiscard]] std::chrono::milliseconds time_left() const;
  [[nodiscard]] Clock::Steady valid_until() const { return election_.valid_until(); }
  [[nodiscard]] const std::string& holder() const { return election_.holder(); }

 private:
  LeaderElector(Client& client, LeaderElectorOptions options, LeaderElection election, OnChange on_change);

  void step();
  void on_reply(LeaderElection::Action action, const Result<Reply>& reply);
  void schedule();
  void release();
  void report_change();
  [[nodiscard]] Request request_for(const LeaderElection::Step& step) const;

  Client& client_;
  const LeaderElectorOptions options_;
  LeaderElection election_;
  OnChange on_change_;
  std::function<void()> on_released_;  // set during hand_over()
  bool reported_ = false;              // the value last passed to on_change_
  Call call_;
  http::Timer timer_;
  http::Timer expiry_;  // fires when the Lease expires, even if the API server does not respond
};

}  // namespace tessera::kube
