// agent/devices/admission.h
//
// Answers the calls that kubelet makes while it admits a pod, for one kind of device:
// GetPreferredAllocation (which IDs to take) and Allocate (how to give the container its devices).
//
//   Admission admission(context, recovery);
//   admission.allocate("aliyun.com/gpu-mem", ids, [](Result<ContainerResponse> response) { ... });
//
// The work of one call is divided as follows:
//   ContainerLookup    finds the container that the call is for
//   DeviceKind         decides which devices the container gets
//   DeliveryStrategy   adds what the container needs to reach them
//   Allocations        records the result
//
// Allocate never returns an error, because kubelet would then fail the pod for good. A container
// that cannot get its devices is admitted without any. StartGate then blocks its start, and reports
// the reason, until the devices are available.
//
// All calls are made on the event loop's thread.
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

// Numbers of Allocate calls, by result.
struct AdmissionCounts {
  // The container got the devices decided for it.
  std::uint64_t allocated = 0;
  // The container got no devices, because a StartBlock was returned. The key is StartBlock::counted_as.
  std::map<std::string, std::uint64_t> blocked{};
  // The container got no devices, because no known pod matches the call.
  std::uint64_t unknown_pod = 0;
  // Calls counted in `allocated` in which kubelet took IDs of devices other than the decided ones.
  std::uint64_t mismatched_ids = 0;
};

class Admission {
 public:
  // `recovery` must outlive this object.
  Admission(const KindContext& context, AllocationRecovery& recovery);
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Answers GetPreferredAllocation with the IDs that kubelet should take. Calls `done` once, on the
  // loop.
  void prefer(const std::string& resource, Preference preference, Done<std::vector<std::string>> done);
  // Answers Allocate for the container to which kubelet assigned `ids`. Calls `done` once, on the
  // loop.
  void allocate(const std::string& resource, std::vector<std::string> ids,
                Done<Result<ContainerResponse>> done);

  [[nodiscard]] const AdmissionCounts& counts() const { return counts_; }
  [[nodiscard]] ContainerLookup& lookup() { return lookup_; }
  [[nodiscard]] const ContainerLookup& lookup() const { return lookup_; }

 private:
  // The container of the last prefer(). The Allocate that follows is for the same container.
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
