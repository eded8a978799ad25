// agent/devices/allocation_store.h
//
// Stores the allocations of one kind of device in a file that survives a restart.
//
//   AllocationStore store(node, GpuKind::keys(), state_dir + "/allocations.json");
//   store.allocations().record(allocation);
//   store.changed();                // saves the file a moment later
//
// All calls are made on the event loop's thread.
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
  // Reads the file at `path`. If that fails, the store starts empty, and AllocationRecovery
  // rebuilds the allocations from kubelet. With an empty path, allocations are kept in memory only.
  // `node` must outlive the store.
  AllocationStore(const NodeContext& node, Allocations::Keys keys, const std::string& path);
  AllocationStore(const AllocationStore&) = delete;
  AllocationStore& operator=(const AllocationStore&) = delete;
  ~AllocationStore();

  [[nodiscard]] Allocations& allocations() { return allocations_; }
  [[nodiscard]] const Allocations& allocations() const { return allocations_; }

  // Call it after changing allocations(). Saves the file and calls the listeners if anything has
  // changed. Both happen later on the loop, because kubelet may be waiting for the current call.
  void changed();

  // During an update, two agents with the same file run at the same time for a moment. The agent that
  // ends calls stop_saving(). The agent that stays calls save_again(), which saves all its allocations.
  void stop_saving() { saves_ = false; }
  void save_again() { file_.set(allocations_.json()); }

  void add_listener(AllocationListener& listener) { listeners_.push_back(&listener); }
  void remove_listener(AllocationListener& listener) { std::erase(listeners_, &listener); }

  // Returns whether the store has a file and its last write succeeded.
  [[nodiscard]] bool is_saved() const { return !path_.empty() && file_.problem().empty(); }

 private:
  void save();

  NodePods& pods_;
  const std::string path_;
  Allocations allocations_;
  AsyncFile file_;
  std::vector<AllocationListener*> listeners_;
  bool save_posted_ = false;
  bool saves_ = true;
  LoopGate gate_;
};

}  // namespace tessera::agent
