// agent/gpu/known_inventory.h
//
// Which GPUs an earlier process saw on this node, for those that do not answer now: they stay
// listed, as unhealthy, instead of vanishing from under pods that have them. From the agent's own
// file; where that is gone (a container whose state directory was not kept), from what was
// published on the Node.
//
//   KnownInventory known(client, "gpu-a");
//   known.fetch(300ms, [](alloc::Inventory inventory) { ... });      // empty when nobody knows
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

// The text of a file that inventory.json() wrote; empty when there is none that can be read.
alloc::Inventory read_known_inventory(const std::string& path);

// The inventory in a Node as the API server tells it; kNotFound when it has none.
Result<alloc::Inventory> inventory_of_node(std::string_view node_json);

class KnownInventory {
 public:
  // `client` must outlive it.
  KnownInventory(kube::Client& client, std::string node) : client_(client), node_(std::move(node)) {}
  KnownInventory(const KnownInventory&) = delete;
  KnownInventory& operator=(const KnownInventory&) = delete;

  // Asks once. `done` comes once, at the latest after `at_most`; kUnavailable or kTimeout when the
  // API server could not be asked, an empty inventory when it has none.
  void fetch(std::chrono::milliseconds at_most, Done<Result<alloc::Inventory>> done);

 private:
  kube::Client& client_;
  const std::string node_;
  kube::Call call_;
};

}  // namespace tessera::agent
