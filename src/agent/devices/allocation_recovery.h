// agent/devices/allocation_recovery.h
//
// Corrects the allocations of one kind of device so that they agree with kubelet. This is needed
// after a restart of the agent, when pods end, and after an Allocate for a pod that the agent did
// not know or mistook for another pod.
//
//   AllocationRecovery recovery(context);
//   recovery.recover();             // once all pods of the node and the devices are known
//
// All calls are made on the event loop's thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/kind_context.h"
#include "agent/devices/loop_gate.h"
#include "base/clock.h"

namespace tessera::agent {

class AllocationRecovery final : private PodListener {
 public:
  explicit AllocationRecovery(const KindContext& context);
  ~AllocationRecovery() override;
  AllocationRecovery(const AllocationRecovery&) = delete;
  AllocationRecovery& operator=(const AllocationRecovery&) = delete;

  // Makes the allocations agree with kubelet. Forgets the allocations of pods that have ended, adds
  // the missing allocations that are in kubelet's checkpoint, and then asks kubelet about pods that
  // still have no allocation. Call it only when all pods of the node are known and the kind knows
  // its devices. Before that, every device of a running container would seem to be missing.
  void recover();

  // Adds the missing allocations of a pod. `devices` is kubelet's report about the pod. If
  // `checkpoint` is null, the checkpoint is read from kubelet's file when needed.
  //
  // A container whose allocation is missing has one of these:
  //   - the devices decided for it, if an earlier process of the agent admitted it,
  //   - the devices of another container, if the agent mistook the container for that one,
  //   - no device, if its pod was unknown.
  void learn(const NodePod& pod, const PodDevices& devices, const Checkpoint* checkpoint = nullptr);

  // Compares all allocations with kubelet's checkpoint. If the checkpoint assigns the IDs of an
  // allocation to another pod, moves the allocation to that pod. Called when a container starts
  // with IDs that the agent recorded for another pod.
  void reassign();

  // Forgets the allocations of a pod that kubelet admits a second time. kubelet then allocates new
  // IDs to the containers of the pod.
  void forget_readmitted(const NodePod& pod);

  // Records an allocation of an unknown pod (is_unknown_pod).
  void record_unknown(const Allocation& allocation);
  // Forgets the allocations of unknown pods that have one of these IDs. Called when kubelet
  // allocates the IDs again, which means that the unknown pod has ended.
  void forget_unknown_with(const std::string& resource, const std::vector<std::string>& ids);

 private:
  void pod_removed(const std::string& uid) override;

  void apply_response(const ContainerResponse& response, const std::string& resource,
                      Allocation& learned) const;
  [[nodiscard]] std::optional<std::vector<DeviceShare>> visible_shares(
      const Env& env, const std::vector<DeviceShare>& decided) const;
  [[nodiscard]] const Allocation* mistaken_for(const NodePod& pod, const std::string& resource,
                                               const std::vector<std::string>& ids) const;
  void forget_ended(const std::string& uid);
  void forget_ended_unknown();
  void learn_from_checkpoint();
  void learn_next();
  [[nodiscard]] bool is_known(const NodePod& pod) const;

  const KindContext context_;
  Allocations& allocations_;
  LoopGate gate_;
  // Allocation::pod_uid of an unknown pod -> when this process recorded the allocation.
  std::map<std::string, Clock::Steady> unknown_since_;
  std::vector<std::string> to_learn_;  // UIDs of pods to ask kubelet about
  bool learning_ = false;
};

}  // namespace tessera::agent
