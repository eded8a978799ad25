#include "agent/gpu/node_writer.h"

#include <fmt/core.h>

#include <utility>

#include "base/log.h"
#include "kube/request.h"

namespace tessera::agent {

NodeWriter::NodeWriter(kube::Client& client, const std::string& node, NodeWriterOptions options)
    : node_(node),
      options_(options),
      reconciler_(client,
                  {.path = kube::node_path(node),
                   .what = fmt::format("inventory of node {}", node),
                   .recheck_every = options.recheck_every,
                   .backoff = options.backoff},
                  [this](const boost::json::value* object) { return reconcile(object); }) {}

void NodeWriter::publish(const alloc::Inventory& inventory, const GpuSoftware& software) {
  Result<NodeMetadata> metadata = node_metadata(inventory, software, options_.metadata);
  if (!metadata) {
    log::error("cannot publish the inventory", {{"node", node_}, {"error", metadata.error()}});
    return;
  }
  if (wanted_ == *metadata) {
    return;
  }
  wanted_ = *std::move(metadata);
  reconciler_.wake();
}

Result<std::optional<kube::Request>> NodeWriter::reconcile(const boost::json::value* node) {
  if (node == nullptr) {
    return fail(ErrorCode::kNotFound,
                fmt::format("node {} does not exist in the API server; check --node-name", node_));
  }
  const std::optional<std::string> patch = TRY(metadata_patch(*node, *wanted_, label_values_));
  if (!patch) {
    return std::nullopt;
  }
  log::info("updating the Node", {{"node", node_}, {"bytes", patch->size()}});
  kube::Request request = kube::patch_request_at_version(kube::node_path(node_), *patch);
  return std::optional(std::move(request));
}

}  // namespace tessera::agent
