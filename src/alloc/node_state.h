// alloc/node_state.h
//
// The free capacity of every node, stored as columns so that one check over all nodes is fast.
// Nodes have ids instead of names. The ledger writes the states; policies read them through
// NodeView.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "alloc/node.h"
#include "alloc/request.h"
#include "topology/gpu_mask.h"
#include "topology/set_tables.h"

namespace tessera::alloc {

using topology::GpuMask;

// A node, numbered from 0. The id of a removed node is used again.
enum class NodeId : std::uint32_t {};
constexpr std::uint32_t raw(NodeId id) {
  return static_cast<std::uint32_t>(id);
}

// A GPU model, numbered from 0.
using ModelId = std::uint16_t;
inline constexpr ModelId kSeveralModels = 0xFFFF;  // not a model id

// Why a whole node takes no GPU pods.
enum class Fence : std::uint8_t {
  kOpen,
  kAbsent,         // the node does not exist; the ledger knows it only from pods bound to it
  kNoGpus,         // nothing to allocate
  kUnreadable,     // its inventory cannot be read
  kUnitDiffers,    // its unit of GPU memory differs from the cluster's
  kSecondPlugin,   // another device plugin allocates the same GPUs, so no GPU can be reserved
  kUnreadablePod,  // a pod on it cannot be read, so it is not known which GPUs are free
  kUnrecordedPod,  // a pod has started there, and it is not known which GPUs it has
  kAgentAway,      // its agent is shutting down or not ready, so kubelet would reject the pod
};

// One node as a policy sees it. Spans and masks are indexed by slot: the position of a GPU in the
// node's inventory (ascending index). Valid until the ledger changes.
struct NodeView {
  NodeId id{};
  std::uint64_t version = 0;                 // changes whenever anything below changes
  std::span<const std::uint32_t> total;      // units of each GPU
  std::span<const std::uint32_t> free;       // free units for shares; 0 if held whole or unhealthy
  std::span<const std::uint16_t> core_free;  // percent of compute not allocated yet
  std::span<const ModelId> model;
  GpuMask whole_free = 0;  // healthy and unused: a whole-GPU pod can take it
  GpuMask shared = 0;      // holds at least one share
  GpuMask healthy = 0;
  std::int64_t cpu_milli_left = 0;  // never negative
  std::int64_t memory_bytes_left = 0;
  std::int64_t cpu_milli_total = 0;
  std::int64_t memory_bytes_total = 0;
  std::uint64_t free_units = 0;                 // sum over `free`
  std::uint64_t total_units = 0;                // sum over `total`
  const topology::SetTables* tables = nullptr;  // never null on a node with GPUs
  std::uint32_t topology = 0;                   // id of the tables; never reused
  bool mps = false;
  OriginalPlugins original;

  [[nodiscard]] unsigned size() const { return static_cast<unsigned>(total.size()); }
};

// The part of one GPU that pods hold.
struct GpuLoad {
  std::uint64_t units = 0;         // held by shares; more than the GPU has if overcommitted
  std::uint32_t core_percent = 0;  // held by shares; more than 100 if overcommitted
  std::uint32_t whole = 0;         // number of pods that hold it whole; over 1 if overcommitted
};

// The free part of a GPU under a load.
struct GpuRoom {
  std::uint32_t free = 0;
  std::uint16_t core_free = 0;
  bool whole_free = false;
};
GpuRoom room_on(std::uint32_t total, bool healthy, const GpuLoad& load);

// The states of all nodes, stored as columns. Amounts are exact; free amounts are never negative.
class NodeStates {
 public:
  // The GPUs of a node, before any are allocated.
  struct Layout {
    std::vector<std::uint32_t> total;
    std::vector<ModelId> model;
    GpuMask healthy = 0;
    std::shared_ptr<const topology::SetTables> tables;
    std::uint32_t topology = 0;
    bool mps = false;
    OriginalPlugins original;
  };

  // Adds a node that is kAbsent and has no GPUs.
  NodeId add();
  // Removes a node; its id may be used again.
  void remove(NodeId id);
  // Replaces the GPUs of the node; the new GPUs have no load. Keeps CPU and memory.
  void set_layout(NodeId id, Layout layout);
  void set_fence(NodeId id, Fence fence);
  void set_capacity(NodeId id, std::int64_t cpu_milli, std::int64_t memory_bytes);

  // Add a load to a GPU, or remove it.
  void load(NodeId id, unsigned slot, std::uint32_t units, std::uint32_t core_percent, bool whole);
  void unload(NodeId id, unsigned slot, std::uint32_t units, std::uint32_t core_percent, bool whole);
  void use_node(NodeId id, std::int64_t cpu_milli, std::int64_t memory_bytes);
  void leave_node(NodeId id, std::int64_t cpu_milli, std::int64_t memory_bytes);

  [[nodiscard]] NodeView view(NodeId id) const;
  [[nodiscard]] Fence fence(NodeId id) const { return rows_[raw(id)].fence; }
  [[nodiscard]] unsigned gpus(NodeId id) const { return rows_[raw(id)].gpus; }
  [[nodiscard]] bool any_unhealthy(NodeId id) const {
    return rows_[raw(id)].healthy != topology::first_gpus(rows_[raw(id)].gpus);
  }
  [[nodiscard]] OriginalPlugins original(NodeId id) const { return rows_[raw(id)].original; }
  [[nodiscard]] GpuLoad gpu_load(NodeId id, unsigned slot) const;
  // Returns the GPUs whose load exceeds their capacity.
  [[nodiscard]] GpuMask overcommitted(NodeId id) const;
  // Returns NodeView::version without creating a view.
  [[nodiscard]] std::uint64_t version(NodeId id) const { return versions_[raw(id)]; }
  // Returns the largest version of any node. While it does not change, no node has changed.
  [[nodiscard]] std::uint64_t last_version() const { return last_version_; }
  // Changes whenever a slot may refer to a different GPU.
  [[nodiscard]] std::uint32_t layout_version(NodeId id) const { return rows_[raw(id)].layout_version; }

  // One more than the largest id that was ever used.
  [[nodiscard]] std::size_t size() const { return rows_.size(); }

  // The values below are all that filter() needs for plain requests. Each costs one memory access.

  // The most units that a share can get on one GPU; 0 if the node is fenced.
  [[nodiscard]] std::uint32_t largest_free(NodeId id) const { return largest_free_[raw(id)]; }
  // The number of GPUs that can be taken whole; 0 if the node is fenced.
  [[nodiscard]] unsigned whole_free(NodeId id) const { return whole_free_count_[raw(id)]; }
  // The model of all GPUs of the node; kSeveralModels if they differ or there are no GPUs.
  [[nodiscard]] ModelId only_model(NodeId id) const { return only_model_[raw(id)]; }
  // Units of the largest GPU, whatever its load.
  [[nodiscard]] std::uint32_t largest_total(NodeId id) const { return largest_total_[raw(id)]; }
  // CPU and memory not requested yet; never negative.
  [[nodiscard]] std::int64_t cpu_left(NodeId id) const { return cpu_left_[raw(id)]; }
  [[nodiscard]] std::int64_t memory_left(NodeId id) const { return memory_left_[raw(id)]; }
  // The sum of the requests of the node's pods; may exceed the capacity of the node.
  [[nodiscard]] NodeUse used(NodeId id) const {
    return {.cpu_milli = rows_[raw(id)].cpu_used, .memory_bytes = rows_[raw(id)].memory_used};
  }

 private:
  struct Row {
    std::uint32_t first = 0;  // position of its first GPU in the columns by GPU
    std::uint32_t layout_version = 0;
    std::uint32_t topology = 0;
    std::uint8_t gpus = 0;
    Fence fence = Fence::kAbsent;
    bool mps = false;
    OriginalPlugins original;
    GpuMask healthy = 0;
    GpuMask whole_free = 0;
    GpuMask shared = 0;
    std::uint64_t free_units = 0;
    std::uint64_t total_units = 0;
    std::int64_t cpu_total = 0;
    std::int64_t cpu_used = 0;
    std::int64_t memory_total = 0;
    std::int64_t memory_used = 0;
    std::shared_ptr<const topology::SetTables> tables;
  };

  std::uint32_t take_range(unsigned gpus);
  void return_range(std::uint32_t first, unsigned gpus);
  // Recompute the derived columns: refresh_gpu() those of one GPU, refresh() those of the node,
  // refresh_capacity() those of its CPU and memory.
  void refresh_gpu(Row& row, unsigned slot);
  void refresh(NodeId id);
  void refresh_capacity(NodeId id);

  // By node.
  std::vector<Row> rows_;
  std::vector<std::uint64_t> versions_;
  std::vector<std::uint32_t> largest_free_;
  std::vector<std::uint8_t> whole_free_count_;
  std::vector<std::uint32_t> largest_total_;
  std::vector<ModelId> only_model_;
  std::vector<std::int64_t> cpu_left_;
  std::vector<std::int64_t> memory_left_;
  std::vector<NodeId> unused_;

  // By GPU; the GPUs of a node are adjacent.
  std::vector<std::uint32_t> total_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint16_t> core_free_;
  std::vector<ModelId> model_;
  std::vector<GpuLoad> load_;
  std::map<unsigned, std::vector<std::uint32_t>> free_ranges_;  // by length

  std::uint64_t last_version_ = 0;
};

}  // namespace tessera::alloc
