// Preferred IDs and allocations; allocator_start.cc has what happens before a container starts,
// allocator_learn.cc what is put together again after a restart.
#include "agent/devices/allocator.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/log.h"

namespace tessera::agent {

namespace {

// Between a preferred answer and the Allocate that follows kubelet only writes its checkpoint.
constexpr std::chrono::seconds kSameQuestion{5};

// A pod that is not known, as part of a CDI name: no pod's UID looks like it.
constexpr std::string_view kUnknownCdiPod = "unknown";
std::string unknown_cdi_container(const std::string& resource, const std::vector<std::string>& ids) {
  std::string name = resource.substr(resource.find('/') + 1) + "-" + (ids.empty() ? "none" : ids.front());
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  return name;
}

std::string devices_text(const std::vector<Share>& shares) {
  std::string text;
  for (const Share& share : shares) {
    text += (text.empty() ? "" : ",") + share.device;
  }
  return text.empty() ? "void" : text;
}

}  // namespace

bool add_unlisted(const std::vector<std::string>& ids, std::vector<Device>& list) {
  std::set<std::string> missing(ids.begin(), ids.end());
  for (const Device& device : list) {
    missing.erase(device.id);
  }
  for (const std::string& id : missing) {
    list.push_back({.id = id, .healthy = false});
  }
  return !missing.empty();
}

Allocator::Allocator(http::EventLoop& loop, NodePods& pods, Allocations& allocations, GrantStrategy& strategy,
                     DeviceKind& kind, Edges edges)
    : loop_(loop),
      pods_(pods),
      allocations_(allocations),
      strategy_(strategy),
      kind_(kind),
      resources_(kind.resources()),
      edges_(std::move(edges)),
      search_(loop, pods, allocations,
              {.begun = edges_.begun,
               .get = edges_.get,
               .fetch = edges_.fetch,
               .learned = [this](const NodePod& pod, const PodDevices& devices) { learn(pod, devices); },
               .forgotten =
                   [this](const NodePod& pod) {
                     allocations_.forget(pod.spec.uid);
                     changed();
                   }}),
      gate_(loop) {}

Allocator::~Allocator() = default;

std::vector<ResourceList> Allocator::lists() {
  std::vector<ResourceList> lists = kind_.lists();
  for (ResourceList& list : lists) {
    std::vector<std::string> held;
    allocations_.each_id(list.resource, [&](const Allocation&, const std::string& id) {
      if (kind_.is_ours(id)) {
        held.push_back(id);
      }
    });
    list.has_vanished = add_unlisted(held, list.devices) || list.has_vanished;
  }
  return lists;
}

void Allocator::find_asker(const Question& question, bool from_prefer, AskerSearch::Done done) {
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

void Allocator::prefer(const std::string& resource, Preference preference,
                       std::function<void(std::vector<std::string>)> done) {
  const Question question{.resource = resource, .size = preference.size};
  find_asker(question, true,
             [this, question, preference = std::move(preference),
              done = std::move(done)](std::optional<Asker> asker) {
               const NodePod* pod = asker ? pods_.find(asker->pod_uid) : nullptr;
               std::set<std::string> held;
               allocations_.each_id(question.resource,
                                    [&](const Allocation& allocation, const std::string& id) {
                                      // Those of a pod that was never known are held as long as kubelet does
                                      // not offer them.
                                      if (!is_unknown_pod(allocation.pod_uid) &&
                                          (pod == nullptr || allocation.pod_uid != pod->spec.uid)) {
                                        held.insert(id);
                                      }
                                    });
               Wanted wanted;
               if (pod != nullptr) {
                 wanted = kind_.wanted(*pod, asker->container, question.resource);
                 preferred_ = Preferred{.question = question, .asker = *asker, .at = Clock::real().now()};
               } else {
                 log::warn(fmt::format("no pod that fits is known in time: kubelet is given IDs of any {}",
                                       kind_.words().one),
                           {{"resource", question.resource}, {"ids", question.size}});
               }
               done(choose_ids(
                   preference, wanted, [this](const std::string& id) { return kind_.device_of(id); },
                   [&](const std::string& id) { return held.contains(id); }));
             });
}

void Allocator::allocate(const std::string& resource, std::vector<std::string> ids,
                         std::function<void(Result<Grant>)> done) {
  std::ranges::sort(ids);  // kubelet has no order
  const Question question{.resource = resource, .size = ids.size()};
  find_asker(question, false,
             [this, resource, ids = std::move(ids), done = std::move(done)](std::optional<Asker> asker) {
               const NodePod* pod = asker ? pods_.find(asker->pod_uid) : nullptr;
               forget_unknown_with(resource, ids);
               done(pod == nullptr ? give_unknown(resource, ids) : give(*pod, *asker, resource, ids));
               changed();
             });
}

Grant Allocator::give(const NodePod& pod, const Asker& asker, const std::string& resource,
                      const std::vector<std::string>& ids) {
  const std::string& container = asker.container;
  Allocation allocation{.pod = pod.name(), .pod_uid = pod.spec.uid, .container = container};
  allocation.guessed = !asker.confirmed;
  const Allocation* before = allocations_.find(pod.spec.uid, container);
  IdsByResource all = before == nullptr ? IdsByResource() : before->ids;
  all[resource] = ids;
  const Decision decision = kind_.decide(pod, container, all);
  Grant grant;
  if (decision) {
    ++counts_.given;
    grant.env = decision->env;
    allocation.shares = decision->shares;
    if (of_other_devices(ids, allocation.shares)) {
      ++counts_.other_ids;
    }
  } else {
    ++counts_.nothing[decision.error().counted_as];
    grant.env = kind_.env_of_none();
    allocation.held = decision.error().why;
    edges_.tell(pod, decision.error().reason, decision.error().why);
  }
  prepare({.pod_uid = pod.spec.uid, .container = container}, resource, grant, allocation);
  log::info("allocate", {{"pod", pod.text()},
                         {"container", container},
                         {"resource", resource},
                         {"ids", ids.size()},
                         {"sees", devices_text(allocation.shares)},
                         {"why", allocation.held}});
  allocation.ids[resource] = ids;
  allocations_.give(allocation);
  return grant;
}

Grant Allocator::give_unknown(const std::string& resource, const std::vector<std::string>& ids) {
  ++counts_.unknown_pod;
  log::error(fmt::format("allocate for a pod that is not known: it sees no {} and is held before it starts",
                         kind_.words().one),
             {{"resource", resource}, {"ids", ids.size()}});
  Allocation allocation{.pod = {}, .pod_uid = unknown_uid(resource, ids), .container = ""};
  allocation.ids[resource] = ids;
  allocation.held = "which pod this is was not known when kubelet admitted it";
  Grant grant;
  grant.env = kind_.env_of_none();
  // A CDI name that stands for nothing now can stand for its devices before it starts.
  prepare({.pod_uid = std::string(kUnknownCdiPod), .container = unknown_cdi_container(resource, ids)},
          resource, grant, allocation);
  unknown_since_[allocation.pod_uid] = Clock::real().now();
  allocations_.give(allocation);
  return grant;
}

// Where the strategy has no use for it, nothing has to be there.
Result<Edits> Allocator::edits_of(const std::vector<Share>& shares) {
  return strategy_.brings_devices() ? kind_.edits(shares) : Edits();
}

// Lets the strategy add what it has to, and writes down what of it counts later.
void Allocator::prepare(ContainerEdits container, const std::string& resource, Grant& grant,
                        Allocation& allocation) {
  container.env = grant.env;
  container.edits = edits_of(allocation.shares);
  container.cdi_names = {free_cdi_name(allocation, container)};
  const Status added = strategy_.add(container, grant);
  if (!added && !strategy_.can_mend()) {
    allocation.fault = added.error().text();
  }
  allocation.fixed = container.edits ? strategy_.fixed(*container.edits) : "";
  if (!grant.cdi_devices.empty()) {
    allocation.cdi_names[resource] = container.cdi_names.front();
  }
}

// One name for all resources of a container, and none that another one has: it may have been given this
// one's when we took this one to be asking.
std::string Allocator::free_cdi_name(const Allocation& allocation, const ContainerEdits& container) const {
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

bool Allocator::of_other_devices(const std::vector<std::string>& ids,
                                 const std::vector<Share>& shares) const {
  return std::ranges::any_of(ids, [&](const std::string& id) {
    const auto device = kind_.device_of(id);
    return !device || std::ranges::find(shares, *device, &Share::device) == shares.end();
  });
}

void Allocator::changed() {
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

void Allocator::pod_ended(const std::string& uid) {
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
