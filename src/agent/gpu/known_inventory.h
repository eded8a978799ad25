// agent/gpu/known_inventory.h
//
// The GPUs that an earlier process saw on this node. GPUs that do not answer now stay listed, as
// unhealthy, so that they do not vanish while pods have them. Read from the agent's own file, or,
// if that is gone (a container whose state directory was not kept), from what was published on the
// Node.
//
//   KnownInventory known(client, "gpu-a");
//   known.fetch(300ms, [](Result<alloc::Inventory> inventory) { ... });
//
// On the event loop's thread; destroy it there.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "agent/devices/loop_gate.h"
#include "alloc/inventory.h"
#include "base/result.h"
#include "kube/client.h"

namespace tessera::agent {

// Reads a file that Inventory::json() wrote; empty if there is none that can be read.
alloc::Inventory read_known_inventory(const std::string& path);

// The inventory in a Node object; kNotFound if it has none.
Result<alloc::Inventory> inventory_of_node(std::string_view node_json);

class KnownInventory {
 public:
  // `client` must outlive it.
  KnownInventory(kube::Client& client, std::string node) : client_(client), node_(std::move(node)) {}
  KnownInventory(const KnownInventory&) = delete;
  KnownInventory& operator=(const KnownInventory&) = delete;

  // Makes one request. `done` is called within `at_most`, with kUnavailable or kTimeout if the API
  // server does not answer, and with an empty inventory if the Node has none.
  void fetch(std::chrono::milliseconds at_most, Done<Result<alloc::Inventory>> done);

 private:
  kube::Client& client_;
  const std::string node_;
  kube::Call call_;
};

}  // namespace tessera::agent
