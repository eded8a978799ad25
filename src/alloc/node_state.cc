#include "alloc/node_state.h"

#include <algorithm>
#include <functional>

namespace tessera::alloc {

namespace {

constexpr std::uint32_t kFullCore = 100;

// total - used, but not less than 0: a GPU that shrank must count as full, not wrap around.
template <class Number>
constexpr Number left_of(Number total, Number used) {
  return used >= total ? Number{0} : total - used;
}

// Resizes a column. Clusters grow by one node at a time, so doubling the capacity would waste half
// of it.
template <class Value>
void lengthen(std::vector<Value>& column, std::size_t size, const Value& filler = {}) {
  if (size > column.capacity()) {
    column.reserve(size + size / 32 + 64);
  }
  column.resize(size, filler);
}

}  // namespace

GpuRoom room_on(std::uint32_t total, bool healthy, const GpuLoad& load) {
  const bool usable = healthy && load.whole == 0;
  return {.free = usable ? static_cast<std::uint32_t>(left_of<std::uint64_t>(total, load.units)) : 0,
          .core_free = static_cast<std::uint16_t>(left_of(kFullCore, load.core_percent)),
          .whole_free = usable && load.units == 0};
}

NodeId NodeStates::add() {
  if (!unused_.empty()) {
    const NodeId id = unused_.back();
    unused_.pop_back();
    return id;
  }
  const std::size_t size = rows_.size() + 1;
  lengthen(rows_, size);
  lengthen(versions_, size);
  lengthen(largest_free_, size);
  lengthen(whole_free_count_, size);
  lengthen(largest_total_, size);
  lengthen(only_model_, size, kSeveralModels);
  lengthen(cpu_left_, size);
  lengthen(memory_left_, size);
  return NodeId{static_cast<std::uint32_t>(rows_.size() - 1)};
}

void NodeStates::remove(NodeId id) {
  Row& row = rows_[raw(id)];
  return_range(row.first, row.gpus);
  const std::uint32_t layout_version = row.layout_version;
  row = Row{};
  row.layout_version = layout_version + 1;
  only_model_[raw(id)] = kSeveralModels;
  refresh(id);
  refresh_capacity(id);
  unused_.push_back(id);
}

std::uint32_t NodeStates::take_range(unsigned gpus) {
  if (auto found = free_ranges_.find(gpus); found != free_ranges_.end() && !found->second.empty()) {
    const std::uint32_t first = found->second.back();
    found->second.pop_back();
    return first;
  }
  const auto first = static_cast<std::uint32_t>(total_.size());
  const std::size_t size = total_.size() + gpus;
  lengthen(total_, size);
  lengthen(free_, size);
  lengthen(core_free_, size);
  lengthen(model_, size);
  lengthen(load_, size);
  return first;
}

void NodeStates::return_range(std::uint32_t first, unsigned gpus) {
  if (gpus > 0) {
    free_ranges_[gpus].push_back(first);
  }
}

void NodeStates::set_layout(NodeId id, Layout layout) {
  Row& row = rows_[raw(id)];
  const auto gpus = static_cast<unsigned>(layout.total.size());
  if (row.gpus != gpus) {
    return_range(row.first, row.gpus);
    row.first = gpus == 0 ? 0 : take_range(gpus);
    row.gpus = static_cast<std::uint8_t>(gpus);
  }
  for (unsigned slot = 0; slot < gpus; ++slot) {
    total_[row.first + slot] = layout.total[slot];
    model_[row.first + slot] = layout.model[slot];
    load_[row.first + slot] = GpuLoad{};
  }
  row.healthy = layout.healthy & topology::first_gpus(gpus);
  row.mps = layout.mps;
  row.original = layout.original;
  row.tables = std::move(layout.tables);
  row.topology = layout.topology;
  row.whole_free = 0;
  row.shared = 0;
  ++row.layout_version;
  const bool one_model =
      gpus > 0 && std::ranges::adjacent_find(layout.model, std::not_equal_to<>()) == layout.model.end();
  only_model_[raw(id)] = one_model ? layout.model.front() : kSeveralModels;
  for (unsigned slot = 0; slot < gpus; ++slot) {
    refresh_gpu(row, slot);
  }
  refresh(id);
}

void NodeStates::set_fence(NodeId id, Fence fence) {
  rows_[raw(id)].fence = fence;
  refresh(id);
}

void NodeStates::set_capacity(NodeId id, std::int64_t cpu_milli, std::int64_t memory_bytes) {
  rows_[raw(id)].cpu_total = std::max<std::int64_t>(cpu_milli, 0);
  rows_[raw(id)].memory_total = std::max<std::int64_t>(memory_bytes, 0);
  refresh_capacity(id);
}

void NodeStates::load(NodeId id, unsigned slot, std::uint32_t units, std::uint32_t core_percent, bool whole) {
  Row& row = rows_[raw(id)];
  GpuLoad& gpu = load_[row.first + slot];
  gpu.units += units;
  gpu.core_percent += core_percent;
  gpu.whole += whole ? 1 : 0;
  refresh_gpu(row, slot);
  refresh(id);
}

void NodeStates::unload(NodeId id, unsigned slot, std::uint32_t units, std::uint32_t core_percent,
                        bool whole) {
  Row& row = rows_[raw(id)];
  GpuLoad& gpu = load_[row.first + slot];
  gpu.units -= units;
  gpu.core_percent -= core_percent;
  gpu.whole -= whole ? 1 : 0;
  refresh_gpu(row, slot);
  refresh(id);
}

void NodeStates::use_node(NodeId id, std::int64_t cpu_milli, std::int64_t memory_bytes) {
  rows_[raw(id)].cpu_used += cpu_milli;
  rows_[raw(id)].memory_used += memory_bytes;
  refresh_capacity(id);
}

void NodeStates::leave_node(NodeId id, std::int64_t cpu_milli, std::int64_t memory_bytes) {
  use_node(id, -cpu_milli, -memory_bytes);
}

void NodeStates::refresh_gpu(Row& row, unsigned slot) {
  const std::uint32_t gpu = row.first + slot;
  const GpuMask bit = topology::gpu_bit(slot);
  const GpuRoom room = room_on(total_[gpu], (row.healthy & bit) != 0, load_[gpu]);
  free_[gpu] = room.free;
  core_free_[gpu] = room.core_free;
  row.shared = load_[gpu].units > 0 ? row.shared | bit : row.shared & ~bit;
  row.whole_free = room.whole_free ? row.whole_free | bit : row.whole_free & ~bit;
}

void NodeStates::refresh(NodeId id) {
  Row& row = rows_[raw(id)];
  std::uint32_t largest = 0;
  std::uint32_t largest_total = 0;
  row.free_units = 0;
  row.total_units = 0;
  for (unsigned slot = 0; slot < row.gpus; ++slot) {
    const std::uint32_t gpu = row.first + slot;
    largest = std::max(largest, free_[gpu]);
    largest_total = std::max(largest_total, total_[gpu]);
    row.free_units += free_[gpu];
    row.total_units += total_[gpu];
  }
  const bool open = row.fence == Fence::kOpen;
  largest_free_[raw(id)] = open ? largest : 0;
  whole_free_count_[raw(id)] = open ? static_cast<std::uint8_t>(topology::gpu_count(row.whole_free)) : 0;
  largest_total_[raw(id)] = largest_total;
  versions_[raw(id)] = ++last_version_;
}

void NodeStates::refresh_capacity(NodeId id) {
  Row& row = rows_[raw(id)];
  cpu_left_[raw(id)] = left_of(row.cpu_total, row.cpu_used);
  memory_left_[raw(id)] = left_of(row.memory_total, row.memory_used);
  versions_[raw(id)] = ++last_version_;
}

NodeView NodeStates::view(NodeId id) const {
  const Row& row = rows_[raw(id)];
  NodeView view;
  view.id = id;
  view.version = versions_[raw(id)];
  view.total = {total_.data() + row.first, row.gpus};
  view.free = {free_.data() + row.first, row.gpus};
  view.core_free = {core_free_.data() + row.first, row.gpus};
  view.model = {model_.data() + row.first, row.gpus};
  view.whole_free = row.whole_free;
  view.shared = row.shared;
  view.healthy = row.healthy;
  view.cpu_milli_left = cpu_left_[raw(id)];
  view.memory_bytes_left = memory_left_[raw(id)];
  view.cpu_milli_total = row.cpu_total;
  view.memory_bytes_total = row.memory_total;
  view.free_units = row.free_units;
  view.total_units = row.total_units;
  view.tables = row.tables.get();
  view.topology = row.topology;
  view.mps = row.mps;
  view.original = row.original;
  return view;
}

GpuLoad NodeStates::gpu_load(NodeId id, unsigned slot) const {
  return load_[rows_[raw(id)].first + slot];
}

GpuMask NodeStates::overcommitted(NodeId id) const {
  const Row& row = rows_[raw(id)];
  GpuMask over = 0;
  for (unsigned slot = 0; slot < row.gpus; ++slot) {
    const GpuLoad& on_it = load_[row.first + slot];
    const bool too_much = on_it.units > total_[row.first + slot] || on_it.core_percent > kFullCore ||
                          on_it.whole > 1 || (on_it.whole == 1 && on_it.units > 0);
    over |= too_much ? topology::gpu_bit(slot) : 0;
  }
  return over;
}

}  // namespace tessera::alloc
