// agent/devices/pod_fetch.h
//
// Asks the API server for the pods of this node that have not started, when kubelet asks about one that the
// watch has not brought yet. On the event loop's thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/devices/node_pods.h"
#include "kube/client.h"
#include "kube/list_decoder.h"

namespace tessera::agent {

class PodFetch {
 public:
  // Both must live longer.
  PodFetch(kube::Client& client, NodePods& pods, const std::string& node);

  // What exists is in the book when `done` comes. Who asks while an answer is on its way gets the next one:
  // the one under way may be of before.
  void fetch(std::function<void(Status)> done);

 private:
  void send();
  void came(Result<kube::Reply> reply);
  Status read(kube::Reply& reply);

  kube::Client& client_;
  NodePods& pods_;
  const std::string query_;
  kube::ListDecoder decoder_;
  std::vector<std::function<void(Status)>> waiting_;
  std::vector<std::function<void(Status)>> asked_;  // those that the request under way is for
  kube::Call call_;
};

}  // namespace tessera::agent
