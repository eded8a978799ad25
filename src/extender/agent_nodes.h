// extender/agent_nodes.h
//
// Watches which nodes should have an agent: those with the label gpushare=true. Only the metric about
// missing agents needs this; the ledger does not, because a node without an inventory gets no pods.
//
//   AgentNodes nodes(context);
//   nodes.start();
//   agents.missing_nodes(nodes.names());
//
// Nodes that run the device plugin of the original have the same label, and do not count. Used only
// on the event loop's thread.
#pragma once

#include <set>
#include <string>

#include "extender/context.h"
#include "kube/object_sink.h"
#include "kube/reflector.h"

namespace tessera::extender {

class AgentNodes final : private kube::ObjectSink {
 public:
  // The parts of `context` must outlive this object.
  explicit AgentNodes(const Context& context);
  AgentNodes(const AgentNodes&) = delete;
  AgentNodes& operator=(const AgentNodes&) = delete;

  void start() { reflector_.start(); }
  [[nodiscard]] const kube::Reflector& reflector() const { return reflector_; }

  [[nodiscard]] const std::set<std::string>& names() const { return names_; }

 private:
  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;
  void unreadable(const kube::ObjectMeta& meta, const Error& error) override;
  void synced() override {}

  struct Decoded {
    bool labelled = false;
    bool has_inventory = false;
    bool has_capacity = false;  // of gpu-count
  };

  const std::string count_;  // the name of the resource gpu-count
  Decoded decoded_;
  std::set<std::string> names_;
  kube::Reflector reflector_;
};

}  // namespace tessera::extender
