#include "agent/devices/container_lookup.h"

#include <algorithm>
#include <set>

#include "base/log.h"

namespace tessera::agent {

namespace {

// Short, because kubelet admits no other pod while it waits for the answer.
constexpr std::chrono::milliseconds kLookupDeadline{450};
constexpr std::chrono::milliseconds kGetDeadline{200};
constexpr std::chrono::milliseconds kPause{15};  // kubelet allows 100 Gets a second

bool holds_nothing(const PodDevices& devices, const std::string& resource) {
  return std::ranges::all_of(devices.containers,
                             [&](const auto& entry) { return !entry.second.contains(resource); });
}

}  // namespace

struct ContainerLookup::Search {
  LookupQuery query;
  FoundDone done;
  http::Timer deadline;
  http::Timer pause;
  std::set<std::string> excluded;  // UIDs of pods that kubelet is not admitting now
  bool asking = false;             // a Get is in flight
  bool fetching = false;           // a request to the API server is in flight
  bool fetched = false;            // ... and has succeeded
  bool over = false;
};

ContainerLookup::ContainerLookup(const KindContext& context, AllocationRecovery& recovery)
    : node_(context.node),
      allocations_(context.allocations()),
      recovery_(recovery),
      gate_(context.node.loop) {
  node_.pods.add_listener(*this);
}

ContainerLookup::~ContainerLookup() {
  node_.pods.remove_listener(*this);
}

void ContainerLookup::find(const LookupQuery& query, FoundDone done) {
  auto search = std::make_shared<Search>();
  search->query = query;
  search->done = std::move(done);
  open_.push_back(search);
  search->deadline = node_.loop.after(kLookupDeadline, [this, search] { guess(search); });
  step(search);
}

std::string ContainerLookup::next_container(const NodePod& pod, const LookupQuery& query) const {
  for (const alloc::ContainerSpec& container : pod.spec.containers) {
    const std::int64_t amount = node_.pods.requested(container, query.resource);
    if (amount > 0 && !allocations_.has(pod.spec.uid, container.name, query.resource)) {
      return static_cast<std::size_t>(amount) == query.size ? container.name : std::string();
    }
  }
  return {};
}

void ContainerLookup::retry_waiting() {
  const auto open = open_;
  for (const auto& search : open) {
    if (!search->asking && !search->pause.pending()) {
      step(search);
    }
  }
}

// Returns the most likely pod: the one that kubelet has begun to admit, else the first in bind
// order.
const NodePod* ContainerLookup::candidate(const Search& search) const {
  const NodePod* next = nullptr;
  for (const NodePod* pod : node_.pods.in_bind_order()) {
    // kubelet allocates for all containers of a pod before it starts any of them.
    if (pod->started() || search.excluded.contains(pod->spec.uid) ||
        next_container(*pod, search.query).empty()) {
      continue;
    }
    if (node_.pods.admission_begun(pod->spec.uid)) {
      return pod;
    }
    next = next == nullptr ? pod : next;
  }
  return next;
}

// Returns a pod that already has all its devices, in case kubelet lost its checkpoint and admits
// the pod again.
const NodePod* ContainerLookup::candidate_for_readmission(const Search& search) const {
  const LookupQuery& query = search.query;
  for (const NodePod* pod : node_.pods.in_bind_order()) {
    const bool fits = std::ranges::any_of(pod->spec.containers, [&](const alloc::ContainerSpec& container) {
      return static_cast<std::size_t>(node_.pods.requested(container, query.resource)) == query.size &&
             allocations_.find(pod->spec.uid, container.name) != nullptr;
    });
    if (fits && !search.excluded.contains(pod->spec.uid) && next_container(*pod, query).empty()) {
      return pod;
    }
  }
  return nullptr;
}

void ContainerLookup::step(const std::shared_ptr<Search>& search) {
  if (search->over) {
    return;
  }
  if (const NodePod* pod = candidate(*search)) {
    confirm(search, *pod);
  } else {
    fetch_or_readmit(search);
  }
}

void ContainerLookup::confirm(const std::shared_ptr<Search>& search, const NodePod& pod) {
  search->asking = true;
  node_.pod_resources.get(
      pod.name(), kGetDeadline,
      gate_.wrap<Result<PodDevices>>([this, search, uid = pod.spec.uid](const Result<PodDevices>& answer) {
        search->asking = false;
        confirmed(search, uid, answer);
      }));
}

void ContainerLookup::confirmed(const std::shared_ptr<Search>& search, const std::string& uid,
                                const Result<PodDevices>& answer) {
  if (search->over) {
    return;
  }
  const NodePod* pod = node_.pods.find(uid);
  if (pod == nullptr) {
    step(search);  // the pod has ended in the meantime
    return;
  }
  has_get_ = answer || answer.error().code() != ErrorCode::kUnsupported;
  if (!answer) {
    step_after_error(search, uid, answer.error().code());
    return;
  }
  const std::string& resource = search->query.resource;
  std::string container = next_container(*pod, search->query);
  if (container.empty()) {
    // The pod is a candidate for readmission: all its devices are allocated. If kubelet reports
    // none for it, kubelet admits it again.
    if (holds_nothing(*answer, resource) && !pod->started()) {
      log::warn("kubelet admits a pod again", {{"pod", pod->text()}});
      recovery_.forget_readmitted(*pod);
    } else {
      search->excluded.insert(uid);
    }
    step(search);
    return;
  }
  const auto known = answer->containers.find(container);
  if (known != answer->containers.end() && known->second.contains(resource)) {
    // The container already has its devices, but the agent has no allocation for it.
    recovery_.learn(*pod, *answer);
    if (next_container(*pod, search->query) == container) {
      search->excluded.insert(uid);
    }
    step(search);
    return;
  }
  finish(search, FoundContainer{.pod_uid = uid, .container = std::move(container), .confirmed = true});
}

void ContainerLookup::step_after_error(const std::shared_ptr<Search>& search, const std::string& uid,
                                       ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
      search->excluded.insert(uid);
      step(search);
      return;
    // A kubelet that is busy or has just started may still answer before the deadline.
    case ErrorCode::kExhausted:
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimeout:
      search->pause = node_.loop.after(kPause, [this, search] { step(search); });
      return;
    default:
      guess(search);
      return;
  }
}

// Called when no known pod matches. Fetches the pods from the API server once, then considers pods
// that kubelet may be admitting again.
void ContainerLookup::fetch_or_readmit(const std::shared_ptr<Search>& search) {
  if (!search->fetching && !search->fetched) {
    search->fetching = true;
    ++counts_.fetched;
    node_.pod_fetch.fetch([this, search](const Status& status) {
      search->fetching = false;
      search->fetched = status.has_value();
      // pod_changed() may already have asked kubelet about a fetched pod.
      if (status && !search->asking && !search->pause.pending()) {
        step(search);
      }
    });
    return;
  }
  if (!search->fetched) {
    return;  // the watch may still deliver the pod; the deadline ends the search
  }
  if (const NodePod* pod = candidate_for_readmission(*search)) {
    confirm(search, *pod);
    return;
  }
  finish(search, std::nullopt);
}

void ContainerLookup::guess(const std::shared_ptr<Search>& search) {
  if (search->over) {
    return;
  }
  const NodePod* pod = candidate(*search);
  if (pod == nullptr) {
    finish(search, std::nullopt);
    return;
  }
  finish(search,
         FoundContainer{
             .pod_uid = pod->spec.uid, .container = next_container(*pod, search->query), .confirmed = false});
}

void ContainerLookup::finish(const std::shared_ptr<Search>& search, std::optional<FoundContainer> found) {
  search->over = true;
  search->deadline.cancel();
  search->pause.cancel();
  std::erase(open_, search);
  ++(!found ? counts_.unknown : found->confirmed ? counts_.confirmed : counts_.guessed);
  const FoundDone done = std::move(search->done);
  done(std::move(found));
}

}  // namespace tessera::agent
