// agent/gpu/node_writer.h
//
// Keeps the node's annotations and labels equal to its GPUs (node_metadata.h says which).
//
//   NodeWriter writer(client, "gpu-a", {});
//   writer.publish(state->inventory, {state->compute, state->cuda});     // at every change of the driver
//
// Written only on change; what others changed is mended within a minute. On the event loop's thread.
#pragma once

#include <optional>
#include <string>

#include "agent/devices/object_keeper.h"
#include "agent/gpu/node_metadata.h"
#include "kube/client.h"

namespace tessera::agent {

struct NodeWriterOptions {
  NodeMetadataOptions metadata{};
  std::chrono::milliseconds look_again{60'000};
  kube::BackoffOptions backoff = ObjectKeeperOptions{}.backoff;
};

class NodeWriter {
 public:
  // `client` must outlive it.
  NodeWriter(kube::Client& client, const std::string& node, NodeWriterOptions options);
  NodeWriter(const NodeWriter&) = delete;
  NodeWriter& operator=(const NodeWriter&) = delete;

  // The GPUs of now. Do not call this before the driver or the node's own annotation told some: an empty
  // inventory means that the node has none.
  void publish(const alloc::Inventory& inventory, const GpuSoftware& software);

  // UID of the Node, for Events about it; empty until the API server told.
  [[nodiscard]] const std::string& node_uid() const { return node_uid_; }
  // Whether all is written, and if not, why.
  [[nodiscard]] const ObjectKeeper::State& state() const { return keeper_.state(); }

 private:
  Result<std::optional<kube::Request>> mend(const boost::json::value* node);

  const std::string node_;
  const NodeWriterOptions options_;
  std::optional<NodeMetadata> wanted_;
  LabelValues label_values_;
  std::string node_uid_;
  ObjectKeeper keeper_;
};

}  // namespace tessera::agent
