// agent/devices/admission.h
//
// Answers kubelet's calls while it admits a pod, for one kind of device: GetPreferredAllocation
// (which IDs to take) and Allocate (what the container gets).
//
//   Admission admission(context, recovery);
//   admission.allocate("aliyun.com/gpu-mem", ids, [](Result<ContainerResponse> response) { ... });
//
// ContainerLookup finds the container that kubelet means, DeviceKind decides what it gets,
// DeliveryStrategy adds how it gets there, and Allocations records it. Allocate is never refused,
// since a refusal is final for the pod: a container that cannot get its devices gets none, and
// StartGate blocks its start, with the reason, until it can.
//
// On the event loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/allocation_recovery.h"
#include "agent/devices/container_lookup.h"
#include "agent/devices/kind_context.h"
#include "agent/devices/kubelet_answers.h"
#include "base/clock.h"

namespace tessera::agent {

struct AdmissionCounts {
  std::uint64_t allocated = 0;                     // containers that got what was decided
  std::map<std::string, std::uint64_t> blocked{};  // got nothing, by StartBlock::counted_as
  std::uint64_t unknown_pod = 0;                   // got nothing: no pod fits the call
  std::uint64_t mismatched_ids = 0;                // kubelet took IDs of other devices than decided
};

class Admission {
 public:
  // `recovery` must outlive it.
  Admission(const KindContext& context, AllocationRecovery& recovery);
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // `done` is called once, on the loop.
  void prefer(const std::string& resource, Preference preference, Done<std::vector<std::string>> done);
  void allocate(const std::string& resource, std::vector<std::string> ids,
                Done<Result<ContainerResponse>> done);

  [[nodiscard]] const AdmissionCounts& counts() const { return counts_; }
  [[nodiscard]] ContainerLookup& lookup() { return lookup_; }
  [[nodiscard]] const ContainerLookup& lookup() const { return lookup_; }

 private:
  // The container of the last preferred IDs: the Allocate that follows is for the same one.
  struct Preferred {
    LookupQuery query;
    FoundContainer container;
    Clock::Steady at;
  };

  [[nodiscard]] std::vector<std::string> preferred_ids(const LookupQuery& query, const Preference& preference,
                                                       const std::optional<FoundContainer>& found);
  [[nodiscard]] std::optional<FoundContainer> take_preferred(const LookupQuery& query);
  void allocate_to(const std::optional<FoundContainer>& found, const std::string& resource,
                   const std::vector<std::string>& ids, const Done<Result<ContainerResponse>>& done);
  ContainerResponse allocate_to_pod(const NodePod& pod, const FoundContainer& found,
                                    const std::string& resource, const std::vector<std::string>& ids);
  ContainerResponse allocate_to_unknown(const std::string& resource, const std::vector<std::string>& ids);
  void deliver(ContainerEdits container, const std::string& resource, ContainerResponse& response,
               Allocation& allocation);
  [[nodiscard]] std::string free_cdi_name(const Allocation& allocation,
                                          const ContainerEdits& container) const;
  [[nodiscard]] bool are_of_other_devices(const std::vector<std::string>& ids,
                                          const std::vector<DeviceShare>& shares) const;

  const KindContext context_;
  AllocationRecovery& recovery_;
  ContainerLookup lookup_;
  std::optional<Preferred> preferred_;
  AdmissionCounts counts_;
};

}  // namespace tessera::agent
