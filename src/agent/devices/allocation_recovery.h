// agent/devices/allocation_recovery.h
//
// Corrects the allocations of one kind so that they agree with kubelet: after a restart, after an
// Allocate for a pod that the agent did not know or mistook for another, and when pods end.
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

  // Makes the allocations agree with kubelet. Forgets those of pods that have ended, adds those in
  // kubelet's checkpoint, and then asks kubelet about pods that still have none. Call it once all
  // pods of the node are known and the kind knows its devices. If it ran earlier, every device of a
  // running container would seem to be missing.
  void recover();

  // Adds the missing allocations of a pod. `devices` is kubelet's report about the pod.
  // `checkpoint` may be null; then it is read when needed.
  //
  // A container without an allocation got one of these:
  //   - the devices decided for it, if an earlier process of the agent admitted it,
  //   - the devices of another container, if it was mistaken for that one,
  //   - no device, if its pod was unknown.
  void learn(const NodePod& pod, const PodDevices& devices, const Checkpoint* checkpoint = nullptr);

  // Moves allocations to the pods that have their IDs according to kubelet's checkpoint. Called
  // when a container starts with IDs that are allocated to another pod.
  void reassign();

  // Forgets the allocations of a pod that kubelet admits again.
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
  // Unknown pods that this process recorded, by UID.
  std::map<std::string, Clock::Steady> unknown_since_;
  std::vector<std::string> to_learn_;  // UIDs of pods to ask kubelet about
  bool learning_ = false;
};

}  // namespace tessera::agent
