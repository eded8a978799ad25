// agent/devices/pod_fetch.h
//
// Fetches the pending pods of this node from the API server. Used when kubelet makes a call for a
// pod that the watch has not delivered yet. All calls are made on the event loop's thread.
#pragma once

#include <string>
#include <vector>

#include "agent/devices/loop_gate.h"
#include "agent/devices/node_pods.h"
#include "kube/client.h"
#include "kube/list_decoder.h"

namespace tessera::agent {

class PodFetch {
 public:
  virtual ~PodFetch() = default;

  // Adds all pending pods of this node to NodePods, then calls `done`. On failure, `done` receives
  // the error.
  virtual void fetch(Done<Status> done) = 0;
};

class ApiPodFetch final : public PodFetch {
 public:
  // `client` and `pods` must outlive this object.
  ApiPodFetch(kube::Client& client, NodePods& pods, const std::string& node);

  // A caller that arrives while a request is in flight waits for the next response, because the
  // current one may predate its question.
  void fetch(Done<Status> done) override;

 private:
  void send();
  void answered(Result<kube::Reply> reply);
  Status read(kube::Reply& reply);

  kube::Client& client_;
  NodePods& pods_;
  const std::string query_;
  kube::ListDecoder decoder_;
  std::vector<Done<Status>> waiting_;
  std::vector<Done<Status>> in_flight_;  // callers that the current request answers
  kube::Call call_;
};

}  // namespace tessera::agent
