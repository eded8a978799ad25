// extender/unseen_pods.h
//
// Bound pods that the ledger knows only from the binder, because the watch has not shown them yet.
// If a pod was bound and deleted during a gap in the watch, the watch never shows its end, and the
// pod would hold its GPUs forever. So this class asks the API server about such pods.
//
// On the event loop's thread.
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

  // Remembers a pod that has just been bound. `by_get` is true if the binder learned from a GET
  // that the pod is bound. The response to a GET may be older than what the watch has shown.
  void add(const BindArgs& pod, bool by_get);
  // Asks the API server about overdue pods, one at a time. Removes the pods that have ended from
  // the ledger. Call it periodically.
  void check();

 private:
  struct Pod {
    std::string namespace_name;
    std::string name;
    Clock::Steady since{};
    bool by_get = false;
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
