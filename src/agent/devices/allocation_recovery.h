// agent/devices/allocation_recovery.h
//
// Brings the allocations of one kind back in line with kubelet: after a restart, when the agent did
// not know the pod that kubelet asked for or mistook it for another, and when pods end.
//
//   AllocationRecovery recovery(context);
//   recovery.recover();             // when all pods of the node and the devices are known
//
// On the event loop's thread.
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

  // Call when all pods of the node are known and the kind knows its devices; before that, every
  // decision would look as if its device were lost. Forgets the allocations of pods that have
  // ended, takes over what kubelet's checkpoint says, and then asks kubelet about running pods
  // without an allocation.
  void recover();

  // Takes over what kubelet says that a pod holds, where there is no allocation yet. The container
  // got what was decided (from an earlier process of the agent), or what was meant for another
  // container, or nothing because its pod was not known. `checkpoint`: null reads it when it is
  // needed.
  void learn(const NodePod& pod, const PodDevices& devices, const Checkpoint* checkpoint = nullptr);

  // Moves allocations to the pods that have the IDs by kubelet's checkpoint. Called when a
  // container starts with the IDs that another pod has by our record.
  void reassign();

  // Forgets everything about a pod that kubelet admits again.
  void forget_readmitted(const NodePod& pod);

  // Records an allocation of a pod that is not known (is_unknown_pod).
  void record_unknown(const Allocation& allocation);
  // Forgets allocations of unknown pods that include one of the IDs: kubelet allocates the ID
  // again, so it was free.
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
  std::map<std::string, Clock::Steady> unknown_since_;  // by UID, unknown pods that this process served
  std::vector<std::string> to_learn_;                   // UIDs
  bool learning_ = false;
};

}  // namespace tessera::agent
