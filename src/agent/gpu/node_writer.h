// agent/gpu/node_writer.h
//
// Reconciles the GPU annotations and labels of the Node (node_metadata.h lists them).
//
//   NodeWriter writer(client, "gpu-a", {});
//   writer.publish(state->inventory, {state->compute, state->cuda});     // on every change
//
// Writes only if something differs. Changes by other clients are reverted within a minute. Use it
// on the event loop's thread.
#pragma once

#include <optional>
#include <string>

#include "agent/devices/object_reconciler.h"
#include "agent/gpu/node_metadata.h"
#include "kube/client.h"

namespace tessera::agent {

struct NodeWriterOptions {
  NodeMetadataOptions metadata{};
  std::chrono::milliseconds recheck_every{60'000};
  kube::BackoffOptions backoff = ObjectReconcilerOptions{}.backoff;
};

class NodeWriter {
 public:
  // `client` must outlive this object.
  NodeWriter(kube::Client& client, const std::string& node, NodeWriterOptions options);
  NodeWriter(const NodeWriter&) = delete;
  NodeWriter& operator=(const NodeWriter&) = delete;

  // Sets the current GPUs. An empty inventory means that the node has no GPUs, so call it only
  // after the driver has answered or an earlier inventory was restored.
  void publish(const alloc::Inventory& inventory, const GpuSoftware& software);

  // Returns whether the Node is up to date and, if not, why.
  [[nodiscard]] const ObjectReconciler::State& state() const { return reconciler_.state(); }

 private:
  Result<std::optional<kube::Request>> reconcile(const boost::json::value* node);

  const std::string node_;
  const NodeWriterOptions options_;
  std::optional<NodeMetadata> wanted_;
  LabelValues label_values_;
  ObjectReconciler reconciler_;
};

}  // namespace tessera::agent
