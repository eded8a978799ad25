#include "agent/devices/asker.h"

#include <algorithm>
#include <set>

#include "base/log.h"

namespace tessera::agent {

namespace {

constexpr std::chrono::milliseconds kGetDeadline{200};
constexpr std::chrono::milliseconds kPause{15};  // kubelet allows 100 Gets a second

bool holds_nothing(const PodDevices& devices, const std::string& resource) {
  return std::ranges::all_of(devices.containers,
                             [&](const auto& entry) { return !entry.second.contains(resource); });
}

}  // namespace

struct AskerSearch::Search {
  Question question;
  Done done;
  http::Timer deadline;
  http::Timer pause;
  std::set<std::string> absent;  // UIDs of pods that kubelet does not know yet
  bool asking = false;           // a Get is under way
  bool fetching = false;
  bool fetched = false;
  bool over = false;
};

AskerSearch::AskerSearch(http::EventLoop& loop, const NodePods& pods, const Allocations& allocations,
                         Edges edges, Milliseconds at_most)
    : loop_(loop),
      pods_(pods),
      allocations_(allocations),
      edges_(std::move(edges)),
      at_most_(at_most),
      gate_(loop) {
  if (!edges_.begun) {
    edges_.begun = [this](const std::string& pod_uid) { return allocations_.knows(pod_uid); };
  }
}

AskerSearch::~AskerSearch() = default;

std::string AskerSearch::next_container(const NodePod& pod, const Question& question) const {
  for (const alloc::ContainerSpec& container : pod.spec.containers) {
    const std::int64_t amount = pods_.asked(container, question.resource);
    if (amount > 0 && !allocations_.has(pod.spec.uid, container.name, question.resource)) {
      return static_cast<std::size_t>(amount) == question.size ? container.name : std::string();
    }
  }
  return {};
}

void AskerSearch::find(const Question& question, Done done) {
  auto search = std::make_shared<Search>();
  search->question = question;
  search->done = std::move(done);
  open_.push_back(search);
  search->deadline = loop_.after(at_most_, [this, search] { guess(search); });
  go_on(search);
}

void AskerSearch::pods_changed() {
  const auto open = open_;
  for (const auto& search : open) {
    if (!search->asking && !search->pause.pending()) {
      go_on(search);
    }
  }
}

// The pod that kubelet has begun with comes first, then the others in the order in which they were bound.
const NodePod* AskerSearch::candidate(const Search& search) const {
  const NodePod* next = nullptr;
  for (const NodePod* pod : pods_.in_bind_order()) {
    // All of a pod is given before anything of it starts.
    if (pod->started() || search.absent.contains(pod->spec.uid) ||
        next_container(*pod, search.question).empty()) {
      continue;
    }
    if (edges_.begun(pod->spec.uid)) {
      return pod;
    }
    next = next == nullptr ? pod : next;
  }
  return next;
}

// Everything was given to it before, but kubelet may have lost its checkpoint.
const NodePod* AskerSearch::candidate_for_readmission(const Search& search) const {
  for (const NodePod* pod : pods_.in_bind_order()) {
    const bool fits = std::ranges::any_of(pod->spec.containers, [&](const alloc::ContainerSpec& container) {
      return static_cast<std::size_t>(pods_.asked(container, search.question.resource)) ==
                 search.question.size &&
             allocations_.find(pod->spec.uid, container.name) != nullptr;
    });
    if (fits && !search.absent.contains(pod->spec.uid) && next_container(*pod, search.question).empty()) {
      return pod;
    }
  }
  return nullptr;
}

void AskerSearch::go_on(const std::shared_ptr<Search>& search) {
  if (search->over) {
    return;
  }
  if (const NodePod* pod = candidate(*search)) {
    confirm(search, *pod);
  } else {
    look_elsewhere(search);
  }
}

void AskerSearch::confirm(const std::shared_ptr<Search>& search, const NodePod& pod) {
  search->asking = true;
  edges_.get(
      pod.name(), kGetDeadline,
      gate_.wrap<Result<PodDevices>>([this, search, uid = pod.spec.uid](const Result<PodDevices>& answer) {
        search->asking = false;
        got(search, uid, answer);
      }));
}

void AskerSearch::got(const std::shared_ptr<Search>& search, const std::string& uid,
                      const Result<PodDevices>& answer) {
  const NodePod* pod = pods_.find(uid);
  if (search->over) {
    return;
  }
  if (pod == nullptr) {
    go_on(search);  // it has ended meanwhile
    return;
  }
  has_get_ = answer || answer.error().code() != ErrorCode::kUnsupported;
  if (!answer) {
    switch (answer.error().code()) {
      case ErrorCode::kNotFound:
        search->absent.insert(uid);
        go_on(search);
        return;
      // A kubelet that is short of time, or has just started, may still say until the deadline.
      case ErrorCode::kExhausted:
      case ErrorCode::kUnavailable:
      case ErrorCode::kTimeout:
        again(search);
        return;
      default:
        guess(search);
        return;
    }
  }
  const std::string& resource = search->question.resource;
  std::string container = next_container(*pod, search->question);
  if (container.empty()) {
    // Of the second look: kubelet holds nothing for a pod that we gave everything to.
    if (holds_nothing(*answer, resource) && !pod->started()) {
      log::warn("kubelet admits a pod again", {{"pod", pod->text()}});
      edges_.forgotten(*pod);
    } else {
      search->absent.insert(uid);
    }
    go_on(search);
    return;
  }
  const auto known = answer->containers.find(container);
  if (known != answer->containers.end() && known->second.contains(resource)) {
    edges_.learned(*pod, *answer);
    if (next_container(*pod, search->question) == container) {
      search->absent.insert(uid);
    }
    go_on(search);
    return;
  }
  end(search, Asker{.pod_uid = uid, .container = std::move(container), .confirmed = true});
}

void AskerSearch::again(const std::shared_ptr<Search>& search) {
  search->pause = loop_.after(kPause, [this, search] { go_on(search); });
}

// No pod that we know of fits: ask the API server, once, and look at pods that were served before.
void AskerSearch::look_elsewhere(const std::shared_ptr<Search>& search) {
  if (!search->fetching && !search->fetched) {
    search->fetching = true;
    ++counts_.fetched;
    edges_.fetch([this, search](const Status& status) {
      search->fetching = false;
      search->fetched = status.has_value();
      // A pod that the answer brought has been asked for already: pods_changed().
      if (status && !search->asking && !search->pause.pending()) {
        go_on(search);
      }
    });
    return;
  }
  if (!search->fetched) {
    return;  // the watch may still bring it; the deadline ends this
  }
  if (const NodePod* pod = candidate_for_readmission(*search)) {
    confirm(search, *pod);
    return;
  }
  end(search, std::nullopt);
}

void AskerSearch::guess(const std::shared_ptr<Search>& search) {
  if (search->over) {
    return;
  }
  const NodePod* pod = candidate(*search);
  if (pod == nullptr) {
    end(search, std::nullopt);
    return;
  }
  end(search,
      Asker{
          .pod_uid = pod->spec.uid, .container = next_container(*pod, search->question), .confirmed = false});
}

void AskerSearch::end(const std::shared_ptr<Search>& search, std::optional<Asker> asker) {
  search->over = true;
  search->deadline.cancel();
  search->pause.cancel();
  std::erase(open_, search);
  ++(!asker ? counts_.unknown : asker->confirmed ? counts_.confirmed : counts_.guessed);
  const Done done = std::move(search->done);
  done(std::move(asker));
}

}  // namespace tessera::agent
