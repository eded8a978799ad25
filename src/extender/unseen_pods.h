// extender/unseen_pods.h
//
// Bound pods that the ledger knows only from the binder, because the watch has not shown them yet.
// If a pod was bound and deleted during a gap in the watch, the watch never shows its end, and the
// pod would hold its GPUs forever. So this class asks the API server about such pods.
//
// Used only on the event loop's thread.
#pragma once

#include <chrono>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "base/result.h"
#include "extender/args.h"
#include "extender/cluster_state.h"
#include "kube/client.h"

namespace tessera::extender {

class UnseenPods {
 public:
  struct Options {
    // The API server is asked about a pod if the watch has not shown it after this time.
    std::chrono::milliseconds overdue{30'000};
    std::chrono::milliseconds timeout{4'000};  // for one request
  };

  // All arguments must outlive this object.
  UnseenPods(kube::Client& client, ClusterState& state, ArgsReader& reader, Options options)
      : client_(client), state_(state), reader_(reader), options_(options) {}
  UnseenPods(const UnseenPods&) = delete;
  UnseenPods& operator=(const UnseenPods&) = delete;

  // Remembers a pod that has just been bound, unless the watch has shown it.
  void add(const BindArgs& pod);
  // Asks the API server about overdue pods, one at a time, and removes those that have ended or are
  // not bound from the ledger. Call it periodically.
  void check();

 private:
  struct Pod {
    std::string namespace_name;
    std::string name;
    Clock::Steady since{};
  };

  void handle_response(const std::string& uid, Result<kube::Reply> reply);

  kube::Client& client_;
  ClusterState& state_;
  ArgsReader& reader_;
  const Options options_;
  std::unordered_map<std::string, Pod> pods_;  // by UID
  kube::Call call_;
};

}  // namespace tessera::extender
