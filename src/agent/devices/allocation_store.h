// agent/devices/allocation_store.h
//
// The allocations of one kind of device, kept in a file that survives a restart.
//
//   AllocationStore store(node, GpuKind::keys(), state_dir + "/allocations.json");
//   store.allocations().record(allocation);
//   store.changed();                // saves the file a moment later
//
// On the event loop's thread.
#pragma once

#include <string>
#include <vector>

#include "agent/devices/allocations.h"
#include "agent/devices/async_file.h"
#include "agent/devices/loop_gate.h"
#include "agent/devices/node_context.h"

namespace tessera::agent {

class AllocationListener {
 public:
  virtual ~AllocationListener() = default;
  virtual void allocations_changed() = 0;
};

class AllocationStore {
 public:
  // Reads the file. If it cannot be read, AllocationRecovery rebuilds the allocations from kubelet.
  // An empty path keeps them in memory only. `node` must outlive it.
  AllocationStore(const NodeContext& node, Allocations::Keys keys, const std::string& path);
  AllocationStore(const AllocationStore&) = delete;
  AllocationStore& operator=(const AllocationStore&) = delete;
  ~AllocationStore();

  [[nodiscard]] Allocations& allocations() { return allocations_; }
  [[nodiscard]] const Allocations& allocations() const { return allocations_; }

  // Call after changes of allocations(). If anything changed, saves the file and calls the
  // listeners; later, because kubelet may be waiting for the answer to the current call.
  void changed();

  void add_listener(AllocationListener& listener) { listeners_.push_back(&listener); }
  void remove_listener(AllocationListener& listener) { std::erase(listeners_, &listener); }

  // Whether the allocations are in a file that survives a restart.
  [[nodiscard]] bool is_saved() const { return !path_.empty() && file_.problem().empty(); }

 private:
  void save();

  NodePods& pods_;
  const std::string path_;
  Allocations allocations_;
  AsyncFile file_;
  std::vector<AllocationListener*> listeners_;
  bool save_posted_ = false;
  LoopGate gate_;
};

}  // namespace tessera::agent
