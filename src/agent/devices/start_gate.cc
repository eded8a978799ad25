// PreStartContainer: once more, is this container about to see what was decided for it? An error here is
// soft. kubelet shows it to the user and asks again, after about a second and then every ten.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <ranges>
#include <set>

#include "agent/devices/allocator.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

constexpr std::chrono::milliseconds kVerifyWithin{2'000};
constexpr std::chrono::milliseconds kBusyPause{30};
constexpr int kTries = 100;  // 3 s of kubelet being busy

bool holds(const PodDevices& devices, const std::string& container, const std::string& resource,
           const std::vector<std::string>& ids) {
  const auto found = devices.containers.find(container);
  if (found == devices.containers.end()) {
    return false;
  }
  const auto held = found->second.find(resource);
  return held != found->second.end() && held->second == ids;
}

}  // namespace

struct Allocator::Starting {
  std::string resource;
  std::vector<std::string> ids;  // sorted
  std::function<void(Status)> done;
  std::vector<std::string> suspects;  // UIDs of pods that may hold the IDs, still to be asked for
  int tries = 0;
  http::Timer pause;
};

void Allocator::pre_start(const std::string& resource, std::vector<std::string> ids,
                          std::function<void(Status)> done) {
  std::ranges::sort(ids);
  // Pods that another plugin admitted under this name before us start again as they were.
  if (!are_ours(ids)) {
    done({});
    return;
  }
  auto starting = std::make_shared<Starting>();
  starting->resource = resource;
  starting->ids = std::move(ids);
  starting->done = std::move(done);
  start(starting);
}

bool Allocator::are_ours(const std::vector<std::string>& ids) const {
  return std::ranges::any_of(ids, [this](const std::string& id) { return kind_.is_ours(id); });
}

void Allocator::start(const std::shared_ptr<Starting>& starting) {
  const Allocation* allocation = starting_allocation(*starting);
  if (allocation != nullptr) {
    verify(starting, *allocation);
    return;
  }
  if (const auto holder = holder_by_checkpoint(*starting, "", "")) {
    PodDevices devices;
    devices.containers[holder->second][starting->resource] = starting->ids;
    learn(*holder->first, devices);
    let_start(starting, *holder->first, holder->second);
    return;
  }
  for (const NodePod* pod : pods_.in_bind_order()) {
    starting->suspects.push_back(pod->spec.uid);
  }
  std::ranges::reverse(starting->suspects);  // the oldest is asked for first, from the back
  look_for_holder(starting);
}

// Whom the IDs were given to; null when that is not known. kubelet uses the IDs of init containers again, so
// several containers of a pod may have them: the one that starts is the first of the pod that does not run.
const Allocation* Allocator::starting_allocation(const Starting& starting) const {
  const Allocation* best = nullptr;
  std::pair<bool, std::ptrdiff_t> best_place;  // whether it runs; where it stands in its pod
  for (const Allocation* allocation : allocations_.with_ids(starting.resource, starting.ids)) {
    const NodePod* pod = pods_.find(allocation->pod_uid);
    if (pod == nullptr) {
      continue;
    }
    const auto spec =
        std::ranges::find(pod->spec.containers, allocation->container, &alloc::ContainerSpec::name);
    const bool runs =
        spec == pod->spec.containers.end() || spec->state == alloc::ContainerState::kRunning ||
        (spec->kind == alloc::ContainerKind::kInit && spec->state == alloc::ContainerState::kTerminated);
    const std::pair place{runs, spec - pod->spec.containers.begin()};
    if (best == nullptr || place < best_place) {
      best = allocation;
      best_place = place;
    }
  }
  return best;
}

void Allocator::verify(const std::shared_ptr<Starting>& starting, const Allocation& allocation) {
  edges_.get(allocation.pod, kVerifyWithin,
             gate_.wrap<Result<PodDevices>>(
                 [this, starting, uid = allocation.pod_uid, container = allocation.container](
                     const Result<PodDevices>& answer) { verified(starting, uid, container, answer); }));
}

void Allocator::verified(const std::shared_ptr<Starting>& starting, const std::string& uid,
                         const std::string& container, const Result<PodDevices>& answer) {
  const NodePod* pod = pods_.find(uid);
  if (pod == nullptr) {
    reply(starting, fail(ErrorCode::kUnavailable, "the pod has ended"));
    return;
  }
  if (!answer && answer.error().code() == ErrorCode::kExhausted && ++starting->tries < kTries) {
    starting->pause = loop_.after(kBusyPause, [this, starting] { start(starting); });
    return;
  }
  if (answer && holds(*answer, container, starting->resource, starting->ids)) {
    let_start(starting, *pod, container);
    return;
  }
  // Init containers are not in kubelet's answer, a kubelet that has just started knows no pod, and an old one
  // has no Get: what is not told is no contradiction. The checkpoint has the last word.
  const auto holder = holder_by_checkpoint(*starting, uid, container);
  if (!holder || holder->first == pod) {
    let_start(starting, *pod, holder ? holder->second : container);
    return;
  }
  log::warn("the container that starts is not the one that was served",
            {{"pod", holder->first->text()}, {"container", holder->second}, {"served", pod->text()}});
  put_right();
  let_start(starting, *holder->first, holder->second);
}

std::optional<std::pair<const NodePod*, std::string>> Allocator::holder_by_checkpoint(
    const Starting& starting, const std::string& likely_uid, const std::string& likely_container) const {
  const Result<Checkpoint> checkpoint = edges_.checkpoint();
  std::optional<std::pair<const NodePod*, std::string>> found;
  if (!checkpoint) {
    return found;
  }
  for (const CheckpointEntry* entry : checkpoint->holders(starting.resource, starting.ids)) {
    const NodePod* pod = pods_.find(entry->pod_uid);
    if (pod == nullptr) {
      continue;
    }
    found = {pod, entry->container};
    if (entry->pod_uid == likely_uid && entry->container == likely_container) {
      break;
    }
  }
  return found;
}

// The IDs are ours and we do not know whose they are: given while the pod was unknown, or the record was
// lost. kubelet knows.
void Allocator::look_for_holder(const std::shared_ptr<Starting>& starting) {
  if (starting->suspects.empty()) {
    reply(starting, fail(ErrorCode::kUnavailable,
                         fmt::format("which pod these {} devices belong to is not known yet; waiting for the "
                                     "API server to tell the pods of this node",
                                     kind_.words().one)));
    return;
  }
  const NodePod* pod = pods_.find(starting->suspects.back());
  if (pod == nullptr) {
    starting->suspects.pop_back();
    look_for_holder(starting);
    return;
  }
  edges_.get(
      pod->name(), kVerifyWithin,
      gate_.wrap<Result<PodDevices>>([this, starting, uid = pod->spec.uid](const Result<PodDevices>& answer) {
        const NodePod* known = pods_.find(uid);
        if (!answer && answer.error().code() == ErrorCode::kExhausted && ++starting->tries < kTries) {
          starting->pause = loop_.after(kBusyPause, [this, starting] { look_for_holder(starting); });
          return;
        }
        starting->suspects.pop_back();
        if (answer && known != nullptr) {
          for (const auto& [container, resources] : answer->containers) {
            if (holds(*answer, container, starting->resource, starting->ids)) {
              learn(*known, *answer);
              let_start(starting, *known, container);
              return;
            }
          }
        }
        look_for_holder(starting);
      }));
}

void Allocator::let_start(const std::shared_ptr<Starting>& starting, const NodePod& pod,
                          const std::string& container) {
  const std::string& uid = pod.spec.uid;
  allocations_.confirm(uid, container);
  const Allocation* given = allocations_.find(uid, container);
  const IdsByResource ids =
      given == nullptr ? IdsByResource{{starting->resource, starting->ids}} : given->ids;
  if (const std::optional<Hold> hold = hold_of(pod, container, ids)) {
    edges_.tell(pod, hold->reason, hold->why);
    finish(starting, uid, container,
           fail(ErrorCode::kUnavailable, fmt::format("pod {}: {}", pod.text(), hold->why)));
    return;
  }
  // Who asks meanwhile (kubelet gives up after 30 s and asks again) waits for the same.
  kind_.before_start(pod, container, gate_.wrap<Status>([this, starting, uid, container](Status status) {
    finish(starting, uid, container, std::move(status));
  }));
}

void Allocator::finish(const std::shared_ptr<Starting>& starting, const std::string& uid,
                       const std::string& container, Status status) {
  allocations_.hold(uid, container, status ? "" : status.error().text());
  changed();
  reply(starting, std::move(status));
}

void Allocator::reply(const std::shared_ptr<Starting>& starting, Status status) {
  ++(status ? counts_.started : counts_.held);
  starting->done(std::move(status));
}

// What was given at admission and what is decided may differ: the guess was wrong then, the watch was late,
// or the decision was changed since. Where what a container sees can still be changed, the decision wins.
// Where it cannot, what it has stays, if it is as good.
Decision Allocator::decide(const NodePod& pod, const std::string& container, const IdsByResource& ids) const {
  Decision decided = kind_.decide(pod, container, ids);
  const Allocation* given = allocations_.find(pod.spec.uid, container);
  if (!decided || can_mend(given)) {
    return decided;
  }
  const Result<Decided> kept = kind_.as_given(pod, container, *decided, given);
  if (kept) {
    return *kept;
  }
  return tl::unexpected(Hold{
      .reason = kind_.words().given_otherwise,
      .why = fmt::format("container {} was admitted with {} and other {} are decided for it by now ({}); "
                         "kubelet keeps what it was given, so delete the pod and let it be created again",
                         container,
                         given == nullptr || given->shares.empty() ? "no " + kind_.words().one
                                                                   : given->shares.front().device,
                         kind_.words().many, kept.error().text())});
}

bool Allocator::can_mend(const Allocation* given) const {
  return strategy_.can_mend() && (given == nullptr || !given->cdi_names.empty());
}

std::optional<Hold> Allocator::hold_of(const NodePod& pod, const std::string& container,
                                       const IdsByResource& ids) {
  const Decision decided = decide(pod, container, ids);
  if (!decided) {
    return decided.error();
  }
  const Allocation* given = allocations_.find(pod.spec.uid, container);
  if (given != nullptr && can_mend(given) && given->shares != decided->shares) {
    Allocation mended = *given;
    mended.shares = decided->shares;
    mended.held.clear();
    allocations_.give(mended);
  }
  if (std::optional<Hold> ill = illness(decided->shares)) {
    return ill;
  }
  if (std::optional<Hold> objection = kind_.objection(pod, decided->shares)) {
    return objection;
  }
  if (given != nullptr && !given->fault.empty()) {
    return Hold{.reason = kind_.words().not_prepared,
                .why = fmt::format("{}; when that is repaired, delete the pod so that it is admitted again",
                                   given->fault)};
  }
  if (const Status ready = make_ready(pod, container, *decided); !ready) {
    return Hold{.reason = kind_.words().not_prepared, .why = ready.error().text()};
  }
  make_others_ready(pod, container);
  return std::nullopt;
}

std::optional<Hold> Allocator::illness(const std::vector<Share>& shares) const {
  const std::vector<NodeDevice> devices = kind_.devices();
  for (const Share& share : shares) {
    const auto found = std::ranges::find(devices, share.device, &NodeDevice::id);
    if (found != devices.end() && !found->unhealthy.empty()) {
      return Hold{.reason = kind_.words().unhealthy,
                  .why = fmt::format("{} is unhealthy ({}); the container waits until it is well, or "
                                     "delete the pod so that another {} is chosen",
                                     found->name, found->unhealthy, kind_.words().one)};
    }
  }
  return std::nullopt;
}

Status Allocator::make_ready(const NodePod& pod, const std::string& container, const Decided& decided) {
  ContainerEdits edits{.pod_uid = pod.spec.uid, .container = container, .env = decided.env};
  edits.edits = edits_of(decided.shares);
  if (const Allocation* given = allocations_.find(pod.spec.uid, container)) {
    const auto names = std::views::values(given->cdi_names);
    const std::set<std::string> different(names.begin(), names.end());
    edits.cdi_names.assign(different.begin(), different.end());
    edits.fixed = given->fixed;
  }
  return strategy_.before_start(edits);
}

// An init container ends and the next one starts with its IDs before the API server has told the end: which
// of them it is may be a wrong guess, so those with the same IDs are made ready, too.
void Allocator::make_others_ready(const NodePod& pod, const std::string& container) {
  const Allocation* given = allocations_.find(pod.spec.uid, container);
  if (given == nullptr || !strategy_.can_mend()) {
    return;
  }
  for (const auto& [resource, ids] : given->ids) {
    for (const Allocation* other : allocations_.with_ids(resource, ids)) {
      if (other->pod_uid != pod.spec.uid || other->container == container) {
        continue;
      }
      const Decision decided = kind_.decide(pod, other->container, other->ids);
      const Status ready = decided ? make_ready(pod, other->container, *decided) : Status();
      if (!ready) {
        log::warn("container not made ready",
                  {{"pod", pod.text()}, {"container", other->container}, {"why", ready.error()}});
      }
    }
  }
}

}  // namespace tessera::agent
