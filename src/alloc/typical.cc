#include "alloc/typical.h"

#include <algorithm>

namespace tessera::alloc {

void RequestHistogram::add(const Request& request) {
  const Shape& shape = request.shape;
  if (shape.share.gpus == 0 && shape.whole == 0) {
    return;
  }
  ++counts_[Kind{.units = shape.share.units,
                 .gpus = shape.share.gpus,
                 .whole = shape.whole,
                 .cpu_milli = shape.node.cpu_milli,
                 .models = request.models}];
  ++total_;
  if (total_ >= kHalveAt || counts_.size() > kMostShapes) {
    halve();
  }
}

void RequestHistogram::halve() {
  total_ = 0;
  for (auto kind = counts_.begin(); kind != counts_.end();) {
    kind->second /= 2;
    total_ += kind->second;
    kind = kind->second == 0 ? counts_.erase(kind) : std::next(kind);
  }
}

std::vector<TypicalRequest> RequestHistogram::typical() const {
  std::vector<TypicalRequest> all;
  for (const auto& [kind, count] : counts_) {
    TypicalRequest one;
    one.shape.share = {.units = kind.units, .core_percent = 0, .gpus = kind.gpus};
    one.shape.whole = kind.whole;
    one.shape.node.cpu_milli = kind.cpu_milli;
    one.models = kind.models;
    one.count = count;
    const auto behind = std::ranges::upper_bound(all, count, std::greater<>(), &TypicalRequest::count);
    all.insert(behind, std::move(one));
  }
  std::uint64_t covered = 0;
  std::size_t kept = 0;
  while (kept < all.size() && covered * 100 < total_ * 99) {
    covered += all[kept++].count;
  }
  all.resize(kept);
  return all;
}

}  // namespace tessera::alloc
