// Preferred IDs and allocations; gpu_start.cc has what happens before a container starts.
#include "agent/gpu_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "agent/id_choice.h"
#include "alloc/legacy_record.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

// Between a preferred answer and the Allocate that follows kubelet only writes its checkpoint.
constexpr std::chrono::seconds kSameQuestion{5};

// Whose IDs these are is not known: they stand under a name that no pod has.
constexpr std::string_view kUnknownPod = "?";

std::string unknown_uid(const std::string& resource, const std::vector<std::string>& ids) {
  return fmt::format("{}{}/{}", kUnknownPod, resource, ids.empty() ? "" : ids.front());
}

std::vector<alloc::Grant> grants_of(const alloc::Record& record, const std::string& container) {
  const alloc::ContainerGrants* found = record.find(container);
  return found == nullptr ? std::vector<alloc::Grant>() : found->grants;
}

}  // namespace

GpuAllocator::GpuAllocator(http::EventLoop& loop, NodePods& pods, Allocations& allocations,
                           GrantStrategy& strategy, Edges edges)
    : loop_(loop),
      pods_(pods),
      allocations_(allocations),
      strategy_(strategy),
      edges_(std::move(edges)),
      search_(loop, pods, allocations,
              {.get = edges_.get,
               .fetch = edges_.fetch,
               .learned = [this](const NodePod& pod, const PodDevices& devices) { learn(pod, devices); },
               .forgotten =
                   [this](const NodePod& pod) {
                     allocations_.forget(pod.spec.uid);
                     changed();
                   }}),
      gate_(loop) {}

GpuAllocator::~GpuAllocator() = default;

void GpuAllocator::set_inventory(const alloc::Inventory& inventory) {
  inventory_ = inventory;
  // Tags are given in the order of UUIDs, so that they do not depend on how the driver counts.
  std::vector<std::string> uuids;
  for (const alloc::Gpu& gpu : inventory.gpus) {
    uuids.push_back(gpu.uuid);
  }
  std::ranges::sort(uuids);
  for (const std::string& uuid : uuids) {
    ids_.tag(uuid);
  }
}

GpuLists GpuAllocator::lists() {
  HeldIds held;
  const auto hold = [&](alloc::GpuResource resource, std::set<std::string>& into) {
    allocations_.each_id(pods_.names().name(resource), [&](const Allocation&, const std::string& id) {
      if (GpuIds::is_ours(id)) {
        into.insert(id);
      }
    });
  };
  hold(alloc::GpuResource::kMemory, held.shares);
  hold(alloc::GpuResource::kWhole, held.whole);
  hold(alloc::GpuResource::kCount, held.whole);
  return make_lists(inventory_, ids_, held);
}

Decision GpuAllocator::decision_of(const NodePod& pod) const {
  return decide(pod.spec, pod.demand, inventory_);
}

void GpuAllocator::find_asker(const Question& question, bool from_prefer, AskerSearch::Done done) {
  if (!from_prefer && preferred_) {
    const Preferred last = *std::exchange(preferred_, std::nullopt);
    const NodePod* pod = pods_.find(last.asker.pod_uid);
    if (last.question.resource == question.resource && last.question.size == question.size &&
        Clock::real().now() - last.at < kSameQuestion && pod != nullptr &&
        search_.next_container(*pod, question) == last.asker.container) {
      done(last.asker);
      return;
    }
  }
  search_.find(question, std::move(done));
}

Wanted GpuAllocator::wanted_of(const NodePod& pod, const std::string& container,
                               alloc::GpuResource resource) const {
  Wanted wanted;
  const Decision decision = decision_of(pod);
  if (decision.verdict != Verdict::kDecided) {
    return wanted;
  }
  const bool shares = resource == alloc::GpuResource::kMemory;
  for (const alloc::Grant& grant : grants_of(decision.record, container)) {
    if (grant.whole != shares) {
      wanted.emplace_back(grant.gpu, grant.whole ? 1 : grant.units);
    }
  }
  return wanted;
}

void GpuAllocator::prefer(alloc::GpuResource resource, Preference preference,
                          std::function<void(std::vector<std::string>)> done) {
  const Question question{.resource = resource, .size = preference.size};
  find_asker(
      question, true,
      [this, question, preference = std::move(preference),
       done = std::move(done)](std::optional<Asker> asker) {
        const NodePod* pod = asker ? pods_.find(asker->pod_uid) : nullptr;
        const std::string& name = pods_.names().name(question.resource);
        std::set<std::string> held;
        allocations_.each_id(name, [&](const Allocation& allocation, const std::string& id) {
          if (pod == nullptr || allocation.pod_uid != pod->spec.uid) {
            held.insert(id);
          }
        });
        Wanted wanted;
        if (pod != nullptr) {
          wanted = wanted_of(*pod, asker->container, question.resource);
          preferred_ = Preferred{.question = question, .asker = *asker, .at = Clock::real().now()};
        }
        done(choose_ids(preference, wanted, ids_, [&](const std::string& id) { return held.contains(id); }));
      });
}

void GpuAllocator::allocate(alloc::GpuResource resource, std::vector<std::string> ids,
                            std::function<void(Result<Grant>)> done) {
  std::ranges::sort(ids);
  const Question question{.resource = resource, .size = ids.size()};
  find_asker(question, false,
             [this, question, ids = std::move(ids), done = std::move(done)](std::optional<Asker> asker) {
               const NodePod* pod = asker ? pods_.find(asker->pod_uid) : nullptr;
               const std::string& name = pods_.names().name(question.resource);
               // What was given away under an unknown name and is given again has been free since.
               allocations_.forget(unknown_uid(name, ids));
               done(pod == nullptr ? give_unknown(name, ids) : give(*pod, asker->container, name, ids));
               changed();
             });
}

Grant GpuAllocator::give(const NodePod& pod, const std::string& container, const std::string& resource,
                         std::vector<std::string> ids) {
  const Decision decision = decision_of(pod);
  count(pod, decision);
  Grant grant;
  Allocation allocation{.pod = pod.name(), .pod_uid = pod.spec.uid, .container = container};
  if (decision.verdict == Verdict::kDecided) {
    const auto env = alloc::container_env(pod.demand, decision.record, inventory_.gpu_names(), container);
    grant.env.insert(env.begin(), env.end());
    allocation.grants = grants_of(decision.record, container);
    if (of_other_gpus(ids, allocation.grants)) {
      ++counts_.other_ids;
    }
  } else {
    grant.env[std::string(alloc::key::kVisibleDevices)] = "void";
    allocation.held = decision.why;
  }
  const Status added = strategy_.add(gpus_for(pod, container, allocation.grants), grant);
  const std::string key = pod.spec.uid + "/" + container;
  strategy_faults_.erase(key);
  if (!added) {
    strategy_faults_[key] = added.error().text();
  }
  log::info("allocate", {{"pod", pod.text()},
                         {"container", container},
                         {"resource", resource},
                         {"ids", ids.size()},
                         {"sees", grant.env[std::string(alloc::key::kVisibleDevices)]},
                         {"why", decision.why}});
  allocation.ids[resource] = std::move(ids);
  allocations_.give(allocation);
  return grant;
}

Grant GpuAllocator::give_unknown(const std::string& resource, const std::vector<std::string>& ids) {
  ++counts_.unknown_pod;
  log::error("allocate for a pod that is not known: it sees no GPU and is held before it starts",
             {{"resource", resource}, {"ids", ids.size()}});
  allocations_.give({.pod = {},
                     .pod_uid = unknown_uid(resource, ids),
                     .container = "",
                     .grants = {},
                     .ids = {{resource, ids}},
                     .held = "which pod this is was not known when kubelet admitted it"});
  Grant grant;
  grant.env[std::string(alloc::key::kVisibleDevices)] = "void";
  return grant;
}

void GpuAllocator::count(const NodePod& pod, const Decision& decision) {
  switch (decision.verdict) {
    case Verdict::kDecided:
      ++counts_.given;
      return;
    case Verdict::kUndecided:
      ++counts_.undecided;
      edges_.tell(pod, "GpuUndecided", decision.why);
      return;
    case Verdict::kBroken:
      ++counts_.broken;
      edges_.tell(pod, "GpuRecordNotBelieved", decision.why);
      return;
    case Verdict::kLostGpu:
      ++counts_.lost_gpu;
      edges_.tell(pod, "GpuLost", decision.why);
      return;
  }
}

bool GpuAllocator::of_other_gpus(const std::vector<std::string>& ids,
                                 const std::vector<alloc::Grant>& grants) const {
  return std::ranges::any_of(ids, [&](const std::string& id) {
    const auto gpu = ids_.gpu_of(id);
    return !gpu || std::ranges::find(grants, *gpu, &alloc::Grant::gpu) == grants.end();
  });
}

ContainerGpus GpuAllocator::gpus_for(const NodePod& pod, const std::string& container,
                                     const std::vector<alloc::Grant>& grants) const {
  ContainerGpus gpus{.pod = pod.name(), .pod_uid = pod.spec.uid, .container = container};
  for (const alloc::Gpu& gpu : inventory_.gpus) {
    if (std::ranges::find(grants, gpu.uuid, &alloc::Grant::gpu) != grants.end()) {
      gpus.gpus.push_back(gpu);
    }
  }
  return gpus;
}

// kubelet says what a pod holds that we have no record of: it got what was decided, from an earlier process
// of ours.
void GpuAllocator::learn(const NodePod& pod, const PodDevices& devices) {
  const Decision decision = decision_of(pod);
  for (const auto& [container, resources] : devices.containers) {
    for (const auto& [resource, ids] : resources) {
      if (!pods_.names().find(resource) || allocations_.has(pod.spec.uid, container, resource)) {
        continue;
      }
      const std::string unknown = unknown_uid(resource, ids);
      const bool was_given_nothing = allocations_.has(unknown, "", resource);
      allocations_.forget(unknown);
      const bool decided = decision.verdict == Verdict::kDecided && !was_given_nothing;
      allocations_.give(
          {.pod = pod.name(),
           .pod_uid = pod.spec.uid,
           .container = container,
           .grants = decided ? grants_of(decision.record, container) : std::vector<alloc::Grant>(),
           .ids = {{resource, ids}},
           .held = decided ? "" : decision.why});
    }
  }
  changed();
}

void GpuAllocator::changed() {
  if (std::exchange(change_posted_, true)) {
    return;
  }
  // After the answer: kubelet waits for it.
  gate_.wrap<bool>([this](bool) {
    change_posted_ = false;
    if (allocations_.take_changed()) {
      edges_.changed();
    }
  })(true);
}

void GpuAllocator::pod_changed(const NodePod& /*pod*/) {
  search_.pods_changed();
}

void GpuAllocator::pod_ended(const std::string& uid) {
  allocations_.forget(uid);
  std::erase_if(strategy_faults_, [&](const auto& entry) { return entry.first.starts_with(uid + "/"); });
  strategy_.forget(uid);
  changed();
}

void GpuAllocator::pods_synced() {
  allocations_.keep_only(
      [this](const std::string& uid) { return uid.starts_with(kUnknownPod) || pods_.find(uid) != nullptr; });
  learn_from_checkpoint();
  std::vector<std::string> alive;
  to_learn_.clear();
  for (const NodePod* pod : pods_.in_bind_order()) {
    alive.push_back(pod->spec.uid);
    const bool known = std::ranges::all_of(pod->demand.containers, [&](const auto& container) {
      return container.kind == alloc::ContainerKind::kInit ||
             allocations_.find(pod->spec.uid, container.name) != nullptr;
    });
    if (!known) {
      to_learn_.push_back(pod->spec.uid);
    }
  }
  strategy_.keep_only(alive);
  changed();
  search_.pods_changed();
  if (!learning_) {
    learn_next();
  }
}

void GpuAllocator::learn_from_checkpoint() {
  const Result<Checkpoint> checkpoint = edges_.checkpoint();
  if (!checkpoint) {
    return;
  }
  std::map<std::string, PodDevices> devices;
  for (const CheckpointEntry& entry : checkpoint->given) {
    devices[entry.pod_uid].containers[entry.container][entry.resource] = entry.ids;
  }
  for (const auto& [uid, held] : devices) {
    if (const NodePod* pod = pods_.find(uid)) {
      learn(*pod, held);
    }
  }
}

// One at a time, slowly: kubelet allows 100 Gets a second, and an admission may need them.
void GpuAllocator::learn_next() {
  learning_ = !to_learn_.empty();
  if (!learning_) {
    return;
  }
  const std::string uid = to_learn_.back();
  to_learn_.pop_back();
  const NodePod* pod = pods_.find(uid);
  if (pod == nullptr) {
    learn_next();
    return;
  }
  edges_.get(pod->name(), std::chrono::seconds(2),
             gate_.wrap<Result<PodDevices>>([this, uid](const Result<PodDevices>& answer) {
               const NodePod* known = pods_.find(uid);
               if (answer && known != nullptr) {
                 learn(*known, *answer);
               }
               learn_next();
             }));
}

}  // namespace tessera::agent
