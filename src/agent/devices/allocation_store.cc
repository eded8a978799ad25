#include "agent/devices/allocation_store.h"

#include <utility>

#include "base/file.h"
#include "base/log.h"

namespace tessera::agent {

AllocationStore::AllocationStore(const NodeContext& node, Allocations::Keys keys, const std::string& path)
    : pods_(node.pods), path_(path), allocations_(std::move(keys)), file_(path), gate_(node.loop) {
  pods_.add_allocations(allocations_);
  const Result<std::string> text =
      path.empty() ? fail(ErrorCode::kNotFound, "") : read_file(path, Allocations::kMaxBytes);
  if (!text) {
    return;
  }
  if (const Status parsed = allocations_.parse(*text); !parsed) {
    log::error("cannot read the saved allocations; rebuilding them from kubelet",
               {{"file", path}, {"error", parsed.error()}});
  }
}

AllocationStore::~AllocationStore() {
  pods_.remove_allocations(allocations_);
}

void AllocationStore::changed() {
  if (!std::exchange(save_posted_, true)) {
    gate_.wrap<bool>([this](bool) { save(); })(true);
  }
}

void AllocationStore::save() {
  save_posted_ = false;
  if (!allocations_.take_changed()) {
    return;
  }
  if (saves_) {
    file_.set(allocations_.json());
  }
  for (AllocationListener* listener : listeners_) {
    listener->allocations_changed();
  }
}

}  // namespace tessera::agent
