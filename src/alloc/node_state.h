// alloc/node_state.h
//
// What is free on every node, laid out for asking all nodes the same question: columns instead of objects,
// ids instead of names. The ledger writes it; policies read it through NodeView.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "alloc/request.h"
#include "topology/gpu_mask.h"
#include "topology/set_tables.h"

namespace tessera::alloc {

using topology::GpuMask;

// A node, dense from 0; an id is used again when its node is gone and forgotten.
enum class NodeId : std::uint32_t {};
constexpr std::uint32_t raw(NodeId id) {
  return static_cast<std::uint32_t>(id);
}

// A GPU model, dense from 0.
using ModelId = std::uint16_t;
inline constexpr ModelId kSeveralModels = 0xFFFF;  // no model

// Why a whole node takes no pods.
enum class Fence : std::uint8_t {
  kOpen,
  kAbsent,        // only pods speak of it so far
  kNoGpus,        // nothing to give
  kUnreadable,    // its inventory cannot be read
  kUnitDiffers,   // counts GPU memory in another unit than the cluster
  kSecondPlugin,  // another device plugin gives out the same GPUs: no promise about them can be kept
};

// One node as a policy sees it. Spans and masks are by slot, a GPU's place in its inventory (ascending
// index). Valid until the ledger next changes.
struct NodeView {
  NodeId id{};
  std::uint64_t version = 0;             // another number whenever anything below has changed
  std::span<const std::uint32_t> total;  // units of each GPU
  std::span<const std::uint32_t> free;   // units a share could take now: 0 on whole-held and unhealthy GPUs
  std::span<const std::uint16_t> core_free;  // percent of compute not promised yet
  std::span<const ModelId> model;
  GpuMask whole_free = 0;  // healthy and nobody on it: what a whole-GPU pod can take
  GpuMask shared = 0;      // some share is on it
  GpuMask healthy = 0;
  std::int64_t cpu_milli_left = 0;  // never negative
  std::int64_t memory_bytes_left = 0;
  std::int64_t cpu_milli_total = 0;
  std::int64_t memory_bytes_total = 0;
  std::uint64_t free_units = 0;                 // sum over `free`
  std::uint64_t total_units = 0;                // sum over `total`
  const topology::SetTables* tables = nullptr;  // never null on a node with GPUs
  std::uint32_t topology = 0;                   // equal for equal tables, never used again for others
  bool mps = false;
  bool old_plugin = false;

  [[nodiscard]] unsigned size() const { return static_cast<unsigned>(total.size()); }
};

// What sits on a GPU.
struct GpuLoad {
  std::uint64_t units = 0;         // promised to shares; more than there is when over-committed
  std::uint32_t core_percent = 0;  // likewise
  std::uint32_t whole = 0;         // pods that hold it whole; more than 1 is over-commitment
};

// What a GPU has left under a load.
struct GpuRoom {
  std::uint32_t free = 0;
  std::uint16_t core_free = 0;
  bool whole_free = false;
};
GpuRoom room_on(std::uint32_t total, bool healthy, const GpuLoad& load);

// The columns. All amounts are exact; differences stop at 0.
class NodeStates {
 public:
  // What a node is before anything sits on it.
  struct Layout {
    std::vector<std::uint32_t> total;
    std::vector<ModelId> model;
    GpuMask healthy = 0;
    std::shared_ptr<const topology::SetTables> tables;
    std::uint32_t topology = 0;
    bool mps = false;
    bool old_plugin = false;
  };

  // A node that is kAbsent and empty.
  NodeId add();
  // Forgets a node; its id will be handed out again.
  void remove(NodeId id);
  // Gives the node these GPUs, all empty. CPU and memory stay as they are.
  void set_layout(NodeId id, Layout layout);
  void set_fence(NodeId id, Fence fence);
  void set_capacity(NodeId id, std::int64_t cpu_milli, std::int64_t memory_bytes);

  // Puts a load on a GPU or takes it off again.
  void load(NodeId id, unsigned slot, std::uint32_t units, std::uint32_t core_percent, bool whole);
  void unload(NodeId id, unsigned slot, std::uint32_t units, std::uint32_t core_percent, bool whole);
  void use_node(NodeId id, std::int64_t cpu_milli, std::int64_t memory_bytes);
  void leave_node(NodeId id, std::int64_t cpu_milli, std::int64_t memory_bytes);

  [[nodiscard]] NodeView view(NodeId id) const;
  [[nodiscard]] Fence fence(NodeId id) const { return rows_[raw(id)].fence; }
  [[nodiscard]] unsigned gpus(NodeId id) const { return rows_[raw(id)].gpus; }
  [[nodiscard]] bool any_ill(NodeId id) const {
    return rows_[raw(id)].healthy != topology::first_gpus(rows_[raw(id)].gpus);
  }
  [[nodiscard]] bool old_plugin(NodeId id) const { return rows_[raw(id)].old_plugin; }
  [[nodiscard]] GpuLoad gpu_load(NodeId id, unsigned slot) const;
  // GPUs with more promised than they have.
  [[nodiscard]] GpuMask overcommitted(NodeId id) const;
  // NodeView::version, without the view.
  [[nodiscard]] std::uint64_t version(NodeId id) const { return versions_[raw(id)]; }
  // Grows with every change of a version: while it stands still, so do all of them.
  [[nodiscard]] std::uint64_t last_version() const { return last_version_; }
  // Another number whenever slots may mean other GPUs.
  [[nodiscard]] std::uint32_t layout_version(NodeId id) const { return rows_[raw(id)].layout_version; }

  // One more than the largest id ever used.
  [[nodiscard]] std::size_t size() const { return rows_.size(); }

  // The questions of filter, one load each. 0 on a node that is not open.
  // Most units that a share can get on one GPU.
  [[nodiscard]] std::uint32_t largest_free(NodeId id) const { return largest_free_[raw(id)]; }
  // GPUs that can be taken whole.
  [[nodiscard]] unsigned whole_free(NodeId id) const { return whole_free_count_[raw(id)]; }
  // The model of all its GPUs; kSeveralModels where they differ or there are none.
  [[nodiscard]] ModelId only_model(NodeId id) const { return only_model_[raw(id)]; }
  // Units of the largest GPU, whoever is on it.
  [[nodiscard]] std::uint32_t largest_total(NodeId id) const { return largest_total_[raw(id)]; }
  // CPU and memory not requested yet; never negative.
  [[nodiscard]] std::int64_t cpu_left(NodeId id) const { return cpu_left_[raw(id)]; }
  [[nodiscard]] std::int64_t memory_left(NodeId id) const { return memory_left_[raw(id)]; }
  // Requested by the pods of the node; may exceed what it has.
  [[nodiscard]] NodeUse used(NodeId id) const {
    return {.cpu_milli = rows_[raw(id)].cpu_used, .memory_bytes = rows_[raw(id)].memory_used};
  }

 private:
  struct Row {
    std::uint32_t first = 0;  // of its GPUs in the columns by GPU
    std::uint32_t layout_version = 0;
    std::uint32_t topology = 0;
    std::uint8_t gpus = 0;
    Fence fence = Fence::kAbsent;
    bool mps = false;
    bool old_plugin = false;
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
  void give_range(std::uint32_t first, unsigned gpus);
  // Brings what is derived from the loads up to date: of one GPU, of the whole node.
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

  // By GPU; the GPUs of a node stand together.
  std::vector<std::uint32_t> total_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint16_t> core_free_;
  std::vector<ModelId> model_;
  std::vector<GpuLoad> load_;
  std::map<unsigned, std::vector<std::uint32_t>> free_ranges_;  // by length

  std::uint64_t last_version_ = 0;
};

}  // namespace tessera::alloc
