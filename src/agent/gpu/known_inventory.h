// agent/gpu/known_inventory.h
//
// Restores the inventory that an earlier process saw on this node. GPUs that do not answer now stay
// listed as unhealthy, so that they do not vanish while pods hold them. The inventory is in the
// agent's state directory. If that was not kept, the one published on the Node is used.
//
//   KnownInventory known(client, "gpu-a");
//   known.fetch(300ms, [](Result<alloc::Inventory> inventory) { ... });
//
// Use and destroy it on the event loop's thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "agent/devices/loop_gate.h"
#include "alloc/inventory.h"
#include "base/result.h"
#include "kube/client.h"

namespace tessera::agent {

// Reads a file with Inventory::json(). Returns an empty inventory if the file is missing or
// invalid.
alloc::Inventory read_known_inventory(const std::string& path);

// Returns the inventory in a Node object; kNotFound if it has none.
Result<alloc::Inventory> inventory_of_node(std::string_view node_json);

class KnownInventory {
 public:
  // `client` must outlive it.
  KnownInventory(kube::Client& client, std::string node) : client_(client), node_(std::move(node)) {}
  KnownInventory(const KnownInventory&) = delete;
  KnownInventory& operator=(const KnownInventory&) = delete;

  // Sends one request to the API server. Calls `done` within `at_most`: with an empty inventory if
  // the Node has none, with kUnavailable or kTimeout if the API server does not answer.
  void fetch(std::chrono::milliseconds at_most, Done<Result<alloc::Inventory>> done);

 private:
  kube::Client& client_;
  const std::string node_;
  kube::Call call_;
};

}  // namespace tessera::agent
