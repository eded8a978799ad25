#include "agent/devices/admission.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "agent/devices/id_choice.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

// Between GetPreferredAllocation and the Allocate that follows, kubelet only writes its checkpoint.
constexpr std::chrono::seconds kSameCall{5};

// Returns what replaces the container name in the CDI name of an unknown pod.
std::string unknown_cdi_container(const std::string& resource, const std::vector<std::string>& ids) {
  std::string name = resource.substr(resource.find('/') + 1) + "-" + (ids.empty() ? "none" : ids.front());
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  return name;
}

std::string devices_text(const std::vector<DeviceShare>& shares) {
  std::string text;
  for (const DeviceShare& share : shares) {
    text += (text.empty() ? "" : ",") + share.device;
  }
  return text.empty() ? "none" : text;
}

}  // namespace

Admission::Admission(const KindContext& context, AllocationRecovery& recovery)
    : context_(context), recovery_(recovery), lookup_(context, recovery) {}

void Admission::prefer(const std::string& resource, Preference preference,
                       Done<std::vector<std::string>> done) {
  const LookupQuery query{.resource = resource, .size = preference.size};
  lookup_.find(query, [this, query, preference = std::move(preference),
                       done = std::move(done)](const std::optional<FoundContainer>& found) {
    done(preferred_ids(query, preference, found));
  });
}

std::vector<std::string> Admission::preferred_ids(const LookupQuery& query, const Preference& preference,
                                                  const std::optional<FoundContainer>& found) {
  const NodePod* pod = found ? context_.node.pods.find(found->pod_uid) : nullptr;
  // IDs of other pods. IDs of unknown pods do not count: they are free, since kubelet offers them.
  std::set<std::string> held;
  for (const Allocations::HeldId& id : context_.allocations().held_ids(query.resource)) {
    const std::string& uid = id.allocation->pod_uid;
    if (!is_unknown_pod(uid) && (pod == nullptr || uid != pod->spec.uid)) {
      held.insert(*id.id);
    }
  }
  WantedIds wanted;
  if (pod != nullptr) {
    if (const Decision decision = context_.kind.decide(*pod, found->container, {})) {
      const auto of_resource = decision->wanted.find(query.resource);
      wanted = of_resource == decision->wanted.end() ? WantedIds() : of_resource->second;
    }
    preferred_ = Preferred{.query = query, .container = *found, .at = Clock::real().now()};
  } else {
    log::warn("no known pod matches GetPreferredAllocation; kubelet may take any IDs",
              {{"resource", query.resource}, {"ids", query.size}});
  }
  return choose_ids(preference, wanted, context_.kind, held);
}

void Admission::allocate(const std::string& resource, std::vector<std::string> ids,
                         Done<Result<ContainerResponse>> done) {
  std::ranges::sort(ids);  // kubelet sends them in random order
  const LookupQuery query{.resource = resource, .size = ids.size()};
  if (const std::optional<FoundContainer> same = take_preferred(query)) {
    allocate_to(same, resource, ids, done);
    return;
  }
  lookup_.find(query,
               [this, resource, ids = std::move(ids), done = std::move(done)](
                   const std::optional<FoundContainer>& found) { allocate_to(found, resource, ids, done); });
}

// Returns the container of the last prefer() if this Allocate belongs to it.
std::optional<FoundContainer> Admission::take_preferred(const LookupQuery& query) {
  if (!preferred_) {
    return std::nullopt;
  }
  const Preferred last = *std::exchange(preferred_, std::nullopt);
  const NodePod* pod = context_.node.pods.find(last.container.pod_uid);
  const bool same = last.query.resource == query.resource && last.query.size == query.size &&
                    Clock::real().now() - last.at < kSameCall && pod != nullptr &&
                    lookup_.next_container(*pod, query) == last.container.container;
  return same ? std::optional(last.container) : std::nullopt;
}

void Admission::allocate_to(const std::optional<FoundContainer>& found, const std::string& resource,
                            const std::vector<std::string>& ids,
                            const Done<Result<ContainerResponse>>& done) {
  const NodePod* pod = found ? context_.node.pods.find(found->pod_uid) : nullptr;
  recovery_.forget_unknown_with(resource, ids);
  done(pod == nullptr ? allocate_to_unknown(resource, ids) : allocate_to_pod(*pod, *found, resource, ids));
  context_.store.changed();
}

ContainerResponse Admission::allocate_to_pod(const NodePod& pod, const FoundContainer& found,
                                             const std::string& resource,
                                             const std::vector<std::string>& ids) {
  const std::string& container = found.container;
  Allocation allocation{.pod = pod.name(), .pod_uid = pod.spec.uid, .container = container};
  allocation.guessed = !found.confirmed;
  const Allocation* before = context_.allocations().find(pod.spec.uid, container);
  IdsByResource all = before == nullptr ? IdsByResource() : before->ids;
  all[resource] = ids;
  const Decision decision = context_.kind.decide(pod, container, all);
  ContainerResponse response;
  if (decision) {
    ++counts_.allocated;
    response.env = decision->env;
    allocation.shares = decision->shares;
    if (are_of_other_devices(ids, allocation.shares)) {
      ++counts_.mismatched_ids;
    }
  } else {
    ++counts_.blocked[decision.error().counted_as];
    response.env = context_.kind.info().no_device_env();
    allocation.start_block = decision.error().message;
    context_.node.warn_pod(pod, decision.error().reason, decision.error().message);
  }
  deliver({.pod_uid = pod.spec.uid, .container = container}, resource, response, allocation);
  log::info("allocated", {{"pod", pod.text()},
                          {"container", container},
                          {"resource", resource},
                          {"ids", ids.size()},
                          {"devices", devices_text(allocation.shares)},
                          {"start_block", allocation.start_block}});
  allocation.ids[resource] = ids;
  context_.allocations().record(allocation);
  return response;
}

ContainerResponse Admission::allocate_to_unknown(const std::string& resource,
                                                 const std::vector<std::string>& ids) {
  ++counts_.unknown_pod;
  log::error("Allocate for an unknown pod; the container gets no device and may not start",
             {{"resource", resource}, {"ids", ids.size()}});
  Allocation allocation{.pod = {}, .pod_uid = unknown_uid(resource, ids), .container = ""};
  allocation.ids[resource] = ids;
  allocation.start_block = "the agent did not know the pod when kubelet admitted it";
  ContainerResponse response;
  response.env = context_.kind.info().no_device_env();
  // The spec of this CDI name is empty now. StartGate fills it before the container starts.
  deliver({.pod_uid = std::string(kUnknownCdiPod), .container = unknown_cdi_container(resource, ids)},
          resource, response, allocation);
  recovery_.record_unknown(allocation);
  return response;
}

// Lets the strategy complete the response, and records in `allocation` what StartGate needs later.
void Admission::deliver(ContainerEdits container, const std::string& resource, ContainerResponse& response,
                        Allocation& allocation) {
  container.env = response.env;
  container.edits = context_.edits(allocation.shares);
  container.cdi_names = {free_cdi_name(allocation, container)};
  const Status added = context_.strategy.add(container, response);
  if (!added && !context_.strategy.can_update()) {
    allocation.fault = added.error().text();
  }
  allocation.fixed = container.edits ? context_.strategy.fixed(*container.edits) : "";
  if (!response.cdi_devices.empty()) {
    allocation.cdi_names[resource] = container.cdi_names.front();
  }
}

// Returns the CDI name of a container, the same for all its resources. If another container was
// mistaken for this one and has its usual name, a number is appended.
std::string Admission::free_cdi_name(const Allocation& allocation, const ContainerEdits& container) const {
  const Allocations& allocations = context_.allocations();
  const Allocation* before = allocations.find(allocation.pod_uid, allocation.container);
  if (before != nullptr && !before->cdi_names.empty()) {
    return before->cdi_names.begin()->second;
  }
  const std::string own = fmt::format("{}_{}", container.pod_uid, container.container);
  std::string name = own;
  for (int number = 2; allocations.has_cdi_name(name); ++number) {
    name = fmt::format("{}-{}", own, number);
  }
  return name;
}

bool Admission::are_of_other_devices(const std::vector<std::string>& ids,
                                     const std::vector<DeviceShare>& shares) const {
  return std::ranges::any_of(ids, [&](const std::string& id) {
    const auto device = context_.kind.device_of(id);
    return !device || std::ranges::find(shares, *device, &DeviceShare::device) == shares.end();
  });
}

}  // namespace tessera::agent
