// extender/agent_watch.h
//
// Watches the pods of the agents and fences every node whose agent is not ready.
//
// kubelet rejects a GPU pod for good (UnexpectedAdmissionError) while no agent is registered on its
// node. kubelet reports the loss of a device plugin in the Node's status only every 10 s, but the
// end of the agent's container immediately. So this watch shortens the time in which pods are lost.
//
//   AgentWatch agents(context, {.namespace_name = "tessera", .selector = "app=agent"});
//   agents.start();
//
// A node without any agent pod is fenced only if it had one before: the agent may also run outside
// of Kubernetes. Used only on the event loop's thread.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <unordered_map>

#include "extender/context.h"
#include "kube/object_sink.h"
#include "kube/reflector.h"

namespace tessera::extender {

struct AgentWatchOptions {
  std::string namespace_name;  // of the agents
  std::string selector;        // labels of the agents
};

class AgentWatch final : private kube::ObjectSink {
 public:
  // The parts of `context` must outlive this object.
  AgentWatch(const Context& context, const AgentWatchOptions& options);
  AgentWatch(const AgentWatch&) = delete;
  AgentWatch& operator=(const AgentWatch&) = delete;

  void start() { reflector_.start(); }
  [[nodiscard]] const kube::Reflector& reflector() const { return reflector_; }

  // Returns the number of nodes that should have a ready agent and have none: nodes in `labelled` and
  // nodes with an agent pod. Returns 0 before the first list.
  [[nodiscard]] std::size_t missing_nodes(const std::set<std::string>& labelled) const;

 private:
  struct AgentPod {
    std::string node;
    bool ready = false;
  };

  struct Count {
    std::size_t pods = 0;
    std::size_t ready = 0;
  };

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;
  void unreadable(const kube::ObjectMeta& meta, const Error& error) override;
  void synced() override {}
  void update(const std::string& node);

  ClusterState& state_;
  AgentPod decoded_;
  std::unordered_map<std::string, AgentPod> pods_;  // by UID
  std::unordered_map<std::string, Count> counts_;   // by node
  kube::Reflector reflector_;
};

}  // namespace tessera::extender
