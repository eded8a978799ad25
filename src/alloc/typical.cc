#include "alloc/typical.h"

#include <algorithm>

namespace tessera::alloc {

void RequestHistogram::add(const Request& request) {
  const Shape& shape = request.shape;
  std::size_t model_bytes = 0;
  for (const std::string& model : request.models) {
    model_bytes += sizeof(std::string) + model.size();
  }
  if ((shape.share.gpus == 0 && shape.whole == 0) || model_bytes > kMostModelBytes) {
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
  using Entry = std::map<Kind, std::uint64_t>::const_pointer;
  std::vector<Entry> by_count;
  for (const auto& entry : counts_) {
    by_count.push_back(&entry);
  }
  std::ranges::sort(by_count, [](Entry a, Entry b) {
    return a->second != b->second ? a->second > b->second : a->first < b->first;
  });
  std::vector<TypicalRequest> typical;
  std::uint64_t covered = 0;
  for (const Entry entry : by_count) {
    if (covered * 100 >= total_ * 99 || typical.size() == kMostTypical) {
      break;
    }
    const auto& [kind, count] = *entry;
    TypicalRequest& one = typical.emplace_back();
    one.shape.share = {.units = kind.units, .core_percent = 0, .gpus = kind.gpus};
    one.shape.whole = kind.whole;
    one.shape.node.cpu_milli = kind.cpu_milli;
    one.models = kind.models;
    one.count = count;
    covered += count;
  }
  return typical;
}

}  // namespace tessera::alloc
