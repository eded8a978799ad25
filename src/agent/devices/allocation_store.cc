#include "agent/devices/served_kind.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

// kubelet asks as soon as it knows us, and who asks is told by the list of pods: without it kubelet is
// steered to IDs of any device, and keeps them. Not longer, since meanwhile kubelet refuses pods for good.
constexpr std::chrono::milliseconds kPodsWithin{350};

Allocations& read_book(Allocations& book, const std::string& path) {
  const Result<std::string> text =
      path.empty() ? fail(ErrorCode::kNotFound, "") : read_file(path, Allocations::kMaxBytes);
  if (!text) {
    return book;
  }
  if (const Status read = book.parse(*text); !read) {
    log::error("the record of what was given cannot be read; it is rebuilt from kubelet",
               {{"file", path}, {"why", read.error()}});
  }
  return book;
}

}  // namespace

ServedKind::ServedKind(http::EventLoop& loop, NodePods& pods, Allocations& book, GrantStrategy& strategy,
                       DeviceKind& kind, Allocator::Edges edges, Options options)
    : loop_(loop),
      pods_(pods),
      book_(read_book(book, options.file)),
      path_(options.file),
      file_(options.file),
      allocator_(loop, pods, book, strategy, kind, with_file(std::move(edges), std::move(options.changed))),
      plugins_(loop, allocator_, kind.words().one, std::move(options.plugins)) {}

Allocator::Edges ServedKind::with_file(Allocator::Edges edges, std::function<void()> changed) {
  edges.changed = [this, changed = std::move(changed)] {
    file_.set(book_.json());
    // IDs of devices that have gone are listed only while they are held.
    if (plugins_.lists_vanished()) {
      publish();
    }
    if (changed) {
      changed();
    }
  };
  return edges;
}

void ServedKind::start() {
  pods_wait_ = loop_.after(kPodsWithin, [this] {
    if (wanted_) {
      publish();
    }
  });
}

void ServedKind::publish() {
  if (!std::exchange(wanted_, true) && pods_.is_synced()) {
    allocator_.pods_synced();
  }
  if (pods_.is_synced() || !pods_wait_.pending()) {
    plugins_.publish();
  }
}

// What pods have is learnt from kubelet when it is known which devices there are: before, all that was
// decided would look as if it had been lost.
void ServedKind::pods_synced() {
  if (wanted_) {
    allocator_.pods_synced();
    publish();
  }
}

std::vector<kube::ObjectReference> ServedKind::holders_of(const std::string& device) const {
  std::map<std::string, kube::ObjectReference> found;
  for (const Allocation& allocation : book_.all()) {
    if (!is_unknown_pod(allocation.pod_uid) &&
        std::ranges::find(allocation.shares, device, &Share::device) != allocation.shares.end()) {
      found[allocation.pod_uid] = {.kind = "Pod",
                                   .namespace_name = allocation.pod.pod_namespace,
                                   .name = allocation.pod.name,
                                   .uid = allocation.pod_uid};
    }
  }
  std::vector<kube::ObjectReference> pods;
  for (auto& [uid, reference] : found) {
    pods.push_back(std::move(reference));
  }
  return pods;
}

void ServedKind::add_readings(Readings& readings) const {
  readings.add_resources(plugins_.resources());
  readings.add_answers(allocator_.counts(), allocator_.search().counts());
}

}  // namespace tessera::agent
