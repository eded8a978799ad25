#include "topology/partition_table.h"

#include <algorithm>
#include <bit>

#include "topology/set_tables.h"

namespace tessera::topology {

// Dynamic programming over the lowest GPU b of a set, from the highest GPU down. Once the best
// totals of all sets of GPUs above b are known, the total of a set with lowest GPU b is the maximum
// over all parts that contain b.
PartitionTable::PartitionTable(const SetTables& tables, unsigned count)
    : tables_(tables),
      count_(count),
      best_(std::size_t{1} << tables.size(), -1),
      first_part_(std::size_t{1} << tables.size(), 0),
      divisible_(std::size_t{1} << tables.size(), 0) {
  best_[0] = 0;
  for (GpuMask set = 0; set < divisible_.size(); ++set) {
    divisible_[set] = gpu_count(set) % count == 0 ? 1 : 0;
  }
  const auto sets = static_cast<std::uint32_t>(best_.size());
  for (unsigned lowest = tables.size(); lowest-- > 0;) {
    const std::uint32_t first = 1U << lowest;
    const std::uint32_t above = (sets - 1) & ~(first | (first - 1));
    for (std::uint32_t others = above;; others = (others - 1) & above) {
      const std::uint32_t part = first | others;
      const unsigned size = gpu_count(part);
      if (size <= count) {
        improve_by(part, above & ~others, size < count);
      }
      if (others == 0) {
        break;
      }
    }
  }
}

// Combines `part` with every subset of `above`. There is at most one smaller part (the leftover):
// after a leftover part, the rest must divide into full parts.
void PartitionTable::improve_by(std::uint32_t part, std::uint32_t above, bool leftover) {
  const std::int32_t score = tables_.pair_sum(part);
  for (std::uint32_t rest = above;; rest = (rest - 1) & above) {
    if (!leftover || divisible_[rest] != 0) {
      const std::int32_t total = score + best_[rest];
      std::int32_t& best = best_[part | rest];
      std::uint16_t& first = first_part_[part | rest];
      if (total > best || (total == best && comes_first(part, first))) {
        best = total;
        first = static_cast<std::uint16_t>(part);
      }
    }
    if (rest == 0) {
      return;
    }
  }
}

std::int32_t PartitionTable::best_total_with(GpuMask free, GpuMask required) const {
  const GpuMask others = free & ~required;
  const unsigned missing = count_ - gpu_count(required);
  std::int32_t best = -1;
  for (GpuMask more = others;; more = (more - 1) & others) {
    if (gpu_count(more) == missing) {
      const GpuMask set = required | more;
      best = std::max(best, tables_.pair_sum(set) + best_[free & ~set]);
    }
    if (more == 0) {
      return best;
    }
  }
}

// Finds the part with the required GPUs in the first best partition that has one. Parts are in
// lexicographic order; a leftover part is ordered as if it were filled up with GPUs after all
// others.
class PartitionTable::Walk {
 public:
  Walk(const PartitionTable& table, GpuMask free, GpuMask required)
      : table_(table), required_(required), free_(free), total_(table.best_total_with(free, required)) {}

  GpuMask find() {
    do {
      leftover_size_ = gpu_count(free_) % table_.count_;
      const GpuMask first = free_ & (~free_ + 1);
      extend(first, free_ & ~first, 1);
      total_ -= table_.tables_.pair_sum(part_);
      free_ &= ~part_;
    } while ((part_ & required_) == 0);
    return part_;
  }

 private:
  // Tries every part that starts with the `size` GPUs of `part` and continues with GPUs of `rest`.
  bool extend(GpuMask part, GpuMask rest, unsigned size) {
    if (size == table_.count_) {
      return accept(part, false);
    }
    for (GpuMask untried = rest; untried != 0; untried &= untried - 1) {
      const GpuMask gpu = untried & (~untried + 1);
      if (extend(part | gpu, untried & ~gpu, size + 1)) {
        return true;
      }
    }
    return size == leftover_size_ && accept(part, true);
  }

  bool accept(GpuMask part, bool leftover) {
    const GpuMask rest = free_ & ~part;
    const std::int32_t score = table_.tables_.pair_sum(part);
    if (score + table_.best_[rest] < total_) {
      return false;
    }
    const bool fits = (part & required_) == 0
                          ? score + table_.best_total_with(rest, required_) == total_
                          : !leftover && (required_ & ~part) == 0 && score + table_.best_[rest] == total_;
    part_ = fits ? part : 0;
    return fits;
  }

  const PartitionTable& table_;
  GpuMask required_;
  GpuMask free_;
  std::int32_t total_;
  unsigned leftover_size_ = 0;
  GpuMask part_ = 0;
};

// Returns the best full part of the first best partition; of equal parts, the first one.
GpuMask PartitionTable::best_full_part(GpuMask free) const {
  GpuMask chosen = 0;
  std::int32_t best = -1;
  while (gpu_count(free) >= count_) {
    const GpuMask part = first_part_[free];
    free &= ~part;
    if (const std::int32_t score = tables_.pair_sum(part); gpu_count(part) == count_ && score > best) {
      best = score;
      chosen = part;
    }
  }
  return chosen;
}

GpuMask PartitionTable::choose(GpuMask free, GpuMask required) const {
  return required == 0 ? best_full_part(free) : Walk(*this, free, required).find();
}

}  // namespace tessera::topology
