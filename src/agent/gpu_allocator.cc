// Preferred IDs and allocations; gpu_start.cc has what happens before a container starts, gpu_learn.cc what
// is put together again after a restart.
#include "agent/gpu_allocator.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "agent/id_choice.h"
#include "alloc/legacy_record.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

// Between a preferred answer and the Allocate that follows kubelet only writes its checkpoint.
constexpr std::chrono::seconds kSameQuestion{5};

// The same as part of a CDI name: no pod's UID looks like it.
constexpr std::string_view kUnknownCdiPod = "unknown";
ContainerGpus unknown_container(const std::string& resource, const std::vector<std::string>& ids) {
  std::string name = resource.substr(resource.find('/') + 1) + "-" + (ids.empty() ? "none" : ids.front());
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  return {.pod = {}, .pod_uid = std::string(kUnknownCdiPod), .container = std::move(name)};
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
  if (!pod.senseless.empty()) {
    return {.verdict = Verdict::kBroken,
            .why = pod.senseless + "; nobody can give that: delete the pod and create it right"};
  }
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
          // Those of a pod that was never known are held as long as kubelet does not offer them.
          if (!is_unknown_pod(allocation.pod_uid) &&
              (pod == nullptr || allocation.pod_uid != pod->spec.uid)) {
            held.insert(id);
          }
        });
        Wanted wanted;
        if (pod != nullptr) {
          wanted = wanted_of(*pod, asker->container, question.resource);
          preferred_ = Preferred{.question = question, .asker = *asker, .at = Clock::real().now()};
        } else {
          log::warn("no pod that fits is known in time: kubelet is given IDs of any GPU",
                    {{"resource", name}, {"ids", question.size}});
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
               forget_unknown_with(name, ids);
               done(pod == nullptr ? give_unknown(name, ids) : give(*pod, *asker, name, ids));
               changed();
             });
}

Grant GpuAllocator::give(const NodePod& pod, const Asker& asker, const std::string& resource,
                         std::vector<std::string> ids) {
  const std::string& container = asker.container;
  const Decision decision = decision_of(pod);
  count(pod, decision);
  Grant grant;
  Allocation allocation{.pod = pod.name(), .pod_uid = pod.spec.uid, .container = container};
  allocation.guessed = !asker.confirmed;
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
  prepare(gpus_for(pod, container, allocation.grants), resource, grant, allocation);
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
  Allocation allocation{.pod = {},
                        .pod_uid = unknown_uid(resource, ids),
                        .container = "",
                        .grants = {},
                        .ids = {{resource, ids}}};
  allocation.held = "which pod this is was not known when kubelet admitted it";
  Grant grant;
  grant.env[std::string(alloc::key::kVisibleDevices)] = "void";
  // A CDI name that stands for nothing now can stand for its GPUs before it starts.
  prepare(unknown_container(resource, ids), resource, grant, allocation);
  unknown_since_[allocation.pod_uid] = Clock::real().now();
  allocations_.give(allocation);
  return grant;
}

// Lets the strategy add what it has to, and writes down what of it counts later.
void GpuAllocator::prepare(ContainerGpus container, const std::string& resource, Grant& grant,
                           Allocation& allocation) {
  container.cdi_names = {free_cdi_name(allocation, container)};
  const Status added = strategy_.add(container, grant);
  if (!added && !strategy_.can_mend()) {
    allocation.fault = added.error().text();
  }
  allocation.fixed = strategy_.fixed(grant);
  if (!grant.cdi_devices.empty()) {
    allocation.cdi_names[resource] = container.cdi_names.front();
  }
}

// One name for all resources of a container, and none that another one has: it may have been given this
// one's when we took this one to be asking.
std::string GpuAllocator::free_cdi_name(const Allocation& allocation, const ContainerGpus& container) const {
  const Allocation* before = allocations_.find(allocation.pod_uid, allocation.container);
  if (before != nullptr && !before->cdi_names.empty()) {
    return before->cdi_names.begin()->second;
  }
  const std::string own = fmt::format("{}_{}", container.pod_uid, container.container);
  std::string name = own;
  for (int number = 2; allocations_.has_cdi_name(name); ++number) {
    name = fmt::format("{}-{}", own, number);
  }
  return name;
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
  std::set<std::string> had;
  for (const Allocation& allocation : allocations_.all()) {
    if (allocation.pod_uid == uid) {
      for (const auto& [resource, name] : allocation.cdi_names) {
        had.insert(name);
      }
    }
  }
  forget_ended(uid);
  forget_unknown_that_ended();
  strategy_.keep_only([&](const std::string& pod_uid, const std::string& name) {
    return (pod_uid != uid && pod_uid != kUnknownCdiPod && !had.contains(name)) ||
           allocations_.has_cdi_name(name);
  });
  changed();
}

}  // namespace tessera::agent
