#include "agent/devices/start_gate.h"

#include <fmt/core.h>

#include <algorithm>
#include <ranges>
#include <set>
#include <utility>

#include "base/log.h"

namespace tessera::agent {

StartGate::StartGate(const KindContext& context, AllocationRecovery& recovery)
    : context_(context), allocations_(context.allocations()), recovery_(recovery), gate_(context.node.loop) {}

void StartGate::pre_start(const std::string& resource, std::vector<std::string> ids, Done<Status> done) {
  std::ranges::sort(ids);
  // The pod was admitted by another plugin for this resource. It restarts unchanged.
  if (!context_.are_ours(ids)) {
    done({});
    return;
  }
  auto start = std::make_shared<Start>();
  start->resource = resource;
  start->ids = std::move(ids);
  start->done = std::move(done);
  identify(start);
}

// Answers the call for a known container: checks whether anything blocks its start, and then calls
// DeviceKind::before_start().
void StartGate::check(const std::shared_ptr<Start>& start, const NodePod& pod, const std::string& container) {
  const ContainerName key{.pod = pod.name(), .pod_uid = pod.spec.uid, .container = container};
  allocations_.confirm(key.pod_uid, container);
  const Allocation* allocation = allocations_.find(key.pod_uid, container);
  const IdsByResource ids =
      allocation == nullptr ? IdsByResource{{start->resource, start->ids}} : allocation->ids;
  if (std::optional<StartBlock> block = find_block(pod, container, ids)) {
    if (is_static_pod(*start)) {
      block->message = fmt::format(
          "is a static pod, which kubelet admits before the API server knows it, so no {} can be chosen for "
          "it; remove its manifest from the node and create it through the API server, for example as a "
          "DaemonSet with a nodeSelector",
          context_.kind.info().one);
    }
    context_.node.warn_pod(pod, block->reason, block->message);
    finish(start, key, fail(ErrorCode::kUnavailable, fmt::format("pod {}: {}", pod.text(), block->message)));
    return;
  }
  // If this takes more than 30 s, kubelet gives up and calls again. That call waits for the same
  // result.
  const bool started_before = allocation != nullptr && allocation->started;
  context_.kind.before_start(pod, container,
                             gate_.wrap<Status>([this, start, key, started_before](const Status& status) {
                               if (!status && !started_before) {
                                 allocations_.set_started(key.pod_uid, key.container, false);
                               }
                               finish(start, key, status);
                             }));
  // Other containers that start in the meantime must not get the same devices.
  allocations_.set_started(key.pod_uid, container, true);
}

// Returns whether the IDs belong to a static pod. kubelet knows such a pod by the 32 digits of a hash
// of its manifest. Its mirror in the API server has another UID.
bool StartGate::is_static_pod(const Start& start) const {
  const Result<Checkpoint> checkpoint = context_.node.checkpoints.read();
  return checkpoint && std::ranges::any_of(checkpoint->holders(start.resource, start.ids),
                                           [](const CheckpointEntry* entry) {
                                             return entry->pod_uid.size() == 32 &&
                                                    entry->pod_uid.find('-') == std::string::npos;
                                           });
}

// Answers the call for a container that has started before and whose pod is not listed yet. The
// container keeps its devices, so only they are checked.
void StartGate::check_unlisted(const std::shared_ptr<Start>& start, const Allocation& allocation) {
  const ContainerName key{
      .pod = allocation.pod, .pod_uid = allocation.pod_uid, .container = allocation.container};
  const std::vector<NodeDevice> devices = context_.kind.devices();
  std::string why = allocation.fault;
  for (const DeviceShare& share : allocation.shares) {
    if (std::ranges::find(devices, share.device, &NodeDevice::id) == devices.end()) {
      why = fmt::format("{} {} is not on this node", context_.kind.info().one, share.device);
    }
  }
  if (const auto unhealthy = unhealthy_block(allocation.shares)) {
    why = unhealthy->message;
  }
  // A strategy that can update has prepared the container at its last start.
  if (why.empty() && !context_.strategy.can_update()) {
    const Status prepared = context_.strategy.before_start({.pod_uid = key.pod_uid,
                                                            .container = key.container,
                                                            .edits = context_.edits(allocation.shares),
                                                            .fixed = allocation.fixed});
    why = prepared ? "" : prepared.error().text();
  }
  const std::string pod = key.pod.namespace_name + "/" + key.pod.name;
  finish(start, key,
         why.empty() ? Status() : fail(ErrorCode::kUnavailable, fmt::format("pod {}: {}", pod, why)));
}

std::optional<StartBlock> StartGate::find_block(const NodePod& pod, const std::string& container,
                                                const IdsByResource& ids) {
  const KindInfo& info = context_.kind.info();
  const Decision decided = decide(pod, container, ids);
  if (!decided) {
    return decided.error();
  }
  update_allocations(pod);
  const Allocation* allocation = allocations_.find(pod.spec.uid, container);
  if (std::optional<StartBlock> unhealthy = unhealthy_block(decided->shares)) {
    return unhealthy;
  }
  if (std::optional<StartBlock> block = context_.kind.block_start(pod)) {
    return block;
  }
  if (allocation != nullptr && !allocation->fault.empty()) {
    return StartBlock{
        .reason = info.setup_failed,
        .message = fmt::format("{}; when that is repaired, delete the pod so that it is admitted again",
                               allocation->fault)};
  }
  if (const Status prepared = prepare(pod, container, *decided); !prepared) {
    return StartBlock{.reason = info.setup_failed, .message = prepared.error().text()};
  }
  prepare_others(pod, container);
  return std::nullopt;
}

// Makes the allocations of containers that can still be updated follow the current decision. Does
// this for all containers of the pod, because its first start makes the allocations permanent.
void StartGate::update_allocations(const NodePod& pod) {
  for (const alloc::ContainerSpec& container : pod.spec.containers) {
    const Allocation* allocation = allocations_.find(pod.spec.uid, container.name);
    if (allocation == nullptr || !can_update(allocation)) {
      continue;
    }
    const Decision decided = context_.kind.decide(pod, container.name, allocation->ids);
    if (decided && decided->shares != allocation->shares) {
      Allocation updated = *allocation;
      updated.shares = decided->shares;
      updated.start_block.clear();
      allocations_.record(updated);
    }
  }
}

// Returns the devices with which the container may start. The devices that it was admitted with may
// differ from those decided now: the lookup guessed wrong, the watch was late, or the decision has
// changed since. If the container can still be updated, the decision wins. Otherwise it keeps the
// devices that it has, provided that the kind accepts them.
Decision StartGate::decide(const NodePod& pod, const std::string& container, const IdsByResource& ids) const {
  Decision decided = context_.kind.decide(pod, container, ids);
  const Allocation* allocation = allocations_.find(pod.spec.uid, container);
  if (!decided || can_update(allocation)) {
    return decided;
  }
  const Result<Decided> accepted = context_.kind.accept_allocated(pod, container, *decided, allocation);
  if (accepted) {
    return *accepted;
  }
  const KindInfo& info = context_.kind.info();
  return tl::unexpected(StartBlock{
      .reason = info.mismatch,
      .message =
          fmt::format("container {} was admitted with {}, but other {} are decided for it now ({}); kubelet "
                      "keeps what the pod was admitted with, so delete the pod and let it be created again",
                      container,
                      allocation == nullptr || allocation->shares.empty() ? "no " + info.one
                                                                          : allocation->shares.front().device,
                      info.many, accepted.error().text())});
}

// Returns whether the devices that the container sees can still be changed. That requires a CDI
// name from its admission, whatever strategy is used now.
bool StartGate::can_update(const Allocation* allocation) const {
  return context_.strategy.can_update() && (allocation == nullptr || !allocation->cdi_names.empty());
}

std::optional<StartBlock> StartGate::unhealthy_block(const std::vector<DeviceShare>& shares) const {
  const std::vector<NodeDevice> devices = context_.kind.devices();
  for (const DeviceShare& share : shares) {
    const auto found = std::ranges::find(devices, share.device, &NodeDevice::id);
    if (found != devices.end() && !found->unhealthy.empty()) {
      const KindInfo& info = context_.kind.info();
      return StartBlock{
          .reason = info.unhealthy,
          .message = fmt::format("{} is unhealthy ({}); the container starts when it is healthy again, "
                                 "or delete the pod so that another {} is chosen",
                                 found->name, found->unhealthy, info.one)};
    }
  }
  return std::nullopt;
}

Status StartGate::prepare(const NodePod& pod, const std::string& container, const Decided& decided) {
  ContainerEdits edits{.pod_uid = pod.spec.uid, .container = container, .env = decided.env};
  edits.edits = context_.edits(decided.shares);
  if (const Allocation* allocation = allocations_.find(pod.spec.uid, container)) {
    const auto names = std::views::values(allocation->cdi_names);
    const std::set<std::string> different(names.begin(), names.end());
    edits.cdi_names.assign(different.begin(), different.end());
    edits.fixed = allocation->fixed;
  }
  return context_.strategy.before_start(edits);
}

// Prepares the other containers of the pod with the same IDs too. When an init container ends, the
// next one starts with its IDs before the API server reports the end, so another one of them may be
// the one that starts.
void StartGate::prepare_others(const NodePod& pod, const std::string& container) {
  const Allocation* allocation = allocations_.find(pod.spec.uid, container);
  if (allocation == nullptr || !context_.strategy.can_update()) {
    return;
  }
  for (const auto& [resource, ids] : allocation->ids) {
    for (const Allocation* other : allocations_.with_ids(resource, ids)) {
      if (other->pod_uid != pod.spec.uid || other->container == container) {
        continue;
      }
      const Decision decided = context_.kind.decide(pod, other->container, other->ids);
      const Status prepared = decided ? prepare(pod, other->container, *decided) : Status();
      if (!prepared) {
        log::warn("cannot prepare a container that shares its IDs",
                  {{"pod", pod.text()}, {"container", other->container}, {"error", prepared.error()}});
      }
    }
  }
}

void StartGate::finish(const std::shared_ptr<Start>& start, const ContainerName& container,
                       const Status& status) {
  allocations_.set_start_block(container.pod_uid, container.container, status ? "" : status.error().text());
  context_.store.changed();
  reply(start, status);
}

void StartGate::reply(const std::shared_ptr<Start>& start, Status status) {
  ++(status ? counts_.started : counts_.blocked);
  start->done(std::move(status));
}

}  // namespace tessera::agent
