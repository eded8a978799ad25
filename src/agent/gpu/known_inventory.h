// agent/gpu/known_inventory.h
//
// Restores the inventory that an earlier process of the agent saw on this node. With it, a GPU that
// does not answer now stays listed as unhealthy, instead of vanishing while pods hold it.
//
// The inventory is in the agent's state directory. If that directory was not kept, the inventory
// that the agent published on the Node is used.
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

// Reads the inventory that an earlier process saved in the file `path`. Returns an empty inventory
// if the file is missing or invalid.
alloc::Inventory read_known_inventory(const std::string& path);

// Returns the inventory in the annotation of a Node object. Fails with kNotFound if the Node has no
// such annotation, and with kInvalid if the annotation or the object is invalid.
Result<alloc::Inventory> inventory_of_node(std::string_view node_json);

class KnownInventory {
 public:
  // `client` must outlive this object.
  KnownInventory(kube::Client& client, std::string node) : client_(client), node_(std::move(node)) {}
  KnownInventory(const KnownInventory&) = delete;
  KnownInventory& operator=(const KnownInventory&) = delete;

  // Gets the inventory on the Node with one request to the API server. Calls `done` within
  // `at_most`. The result is an empty inventory if the Node has none or an invalid one, and
  // kUnavailable or kTimeout if the API server does not answer.
  void fetch(std::chrono::milliseconds at_most, Done<Result<alloc::Inventory>> done);

 private:
  kube::Client& client_;
  const std::string node_;
  kube::Call call_;
};

}  // namespace tessera::agent
