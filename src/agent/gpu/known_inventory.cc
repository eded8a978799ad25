#include "agent/gpu/known_inventory.h"

#include <utility>

#include "alloc/names.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "kube/request.h"

namespace tessera::agent {

namespace {

constexpr std::size_t kMaxNodeBytes = 4U << 20U;

}  // namespace

alloc::Inventory read_known_inventory(const std::string& path) {
  const Result<std::string> text =
      path.empty() ? fail(ErrorCode::kNotFound, "") : read_file(path, alloc::Inventory::kMaxBytes);
  if (!text) {
    return {};
  }
  Result<alloc::Inventory> inventory = alloc::Inventory::parse(*text);
  if (!inventory) {
    log::warn("cannot read the inventory of an earlier run", {{"file", path}, {"error", inventory.error()}});
    return {};
  }
  return *std::move(inventory);
}

Result<alloc::Inventory> inventory_of_node(std::string_view node_json) {
  const boost::json::value document = TRY(parse_json(node_json, kMaxNodeBytes));
  const JsonReader node(document, "node");
  const JsonReader metadata = TRY(node.object("metadata"));
  if (!metadata.has("annotations")) {
    return fail(ErrorCode::kNotFound, "the node has no inventory");
  }
  const JsonReader annotations = TRY(metadata.object("annotations"));
  const std::string name(alloc::key::kInventory);
  if (!annotations.has(name)) {
    return fail(ErrorCode::kNotFound, "the node has no inventory");
  }
  const std::string text = TRY(annotations.text(name));
  return alloc::Inventory::parse(text);
}

void KnownInventory::fetch(std::chrono::milliseconds at_most, Done<Result<alloc::Inventory>> done) {
  kube::Request request = kube::get_request(kube::node_path(node_));
  request.deadline = at_most;
  request.max_attempts = 1;
  request.max_response_bytes = kMaxNodeBytes;
  request.what = "inventory of an earlier run";
  call_ = client_.send(std::move(request), [done = std::move(done)](const Result<kube::Reply>& reply) {
    if (!reply && reply.error().code() != ErrorCode::kNotFound) {
      done(fail(reply.error()));
      return;
    }
    Result<alloc::Inventory> inventory = reply ? inventory_of_node(reply->body.text()) : fail(reply.error());
    if (!inventory && inventory.error().code() != ErrorCode::kNotFound) {
      log::warn("cannot read the inventory on the Node", {{"error", inventory.error()}});
    }
    done(inventory ? *std::move(inventory) : alloc::Inventory());
  });
}

}  // namespace tessera::agent
