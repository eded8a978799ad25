// agent/devices/allocation.h
//
// The devices of one kind that one container of this node has. Used for /allocations, for metrics
// and to map processes to pods. A plain value. The class Allocations (allocations.h) stores all
// allocations of a node.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/devices/pod_resources.h"

namespace tessera::agent {

// The share of one device that a container has: the whole device or some units of it.
struct DeviceShare {
  std::string device;              // permanent ID of the device; for a GPU its UUID
  std::uint32_t units = 0;         // 0 for a whole device
  std::uint32_t core_percent = 0;  // percent of the device's compute; 0: none requested
  bool whole = false;

  friend bool operator==(const DeviceShare&, const DeviceShare&) = default;
};

// Resource -> the sorted device IDs of that resource, as kubelet counts devices (Device::id).
using IdsByResource = std::map<std::string, std::vector<std::string>>;

struct Allocation {
  PodName pod;
  std::string pod_uid;  // begins with "?" if the pod was unknown during Allocate
  std::string container;
  // The devices that the container sees. Empty if it got none.
  std::vector<DeviceShare> shares{};
  // The IDs that kubelet took for the container. Usually these IDs belong to the devices in
  // `shares`. But kubelet does not always ask which IDs to take: it reuses the IDs of init
  // containers at random. The IDs may then belong to other devices.
  IdsByResource ids{};
  // Resource -> the CDI name that Allocate returned. Empty if the strategy does not use CDI.
  // kubelet keeps the name for the life of the pod. If the agent mistook this container for another
  // one during Allocate, the name contains the pod UID and the name of the other container.
  std::map<std::string, std::string> cdi_names{};
  // The part of the Allocate response that kubelet keeps for the life of the pod and that may
  // become outdated, for example after a driver update: the paths of device nodes and files, as
  // text (DeliveryStrategy::fixed). Empty if there is no such part or it is unknown.
  std::string fixed{};
  // Why the strategy could not add the devices at admission. Set only if the strategy cannot add
  // them later either (DeliveryStrategy::can_update returns false). Empty otherwise.
  std::string fault{};
  // True if kubelet has not confirmed that its Allocate call was for this container. Another
  // container may have the IDs.
  bool guessed = false;
  // True once StartGate has allowed a start. From then on the container keeps `shares`, whatever
  // the pod's annotations say.
  bool started = false;
  // Why the container may not start yet; empty if it may.
  std::string start_block{};

  friend bool operator==(const Allocation&, const Allocation&) = default;
};

// Prefix of the UID in allocations whose pod was unknown during Allocate. No real UID has it.
inline constexpr std::string_view kUnknownPod = "?";
inline bool is_unknown_pod(const std::string& pod_uid) {
  return pod_uid.starts_with(kUnknownPod);
}
// Replaces the pod UID in the CDI name of an unknown pod. No pod has such a UID.
inline constexpr std::string_view kUnknownCdiPod = "unknown";

// Returns the value of Allocation::pod_uid for an unknown pod that has these IDs.
std::string unknown_uid(const std::string& resource, const std::vector<std::string>& ids);

// Returns a new allocation for the container `to`. It has the shares of `from`, and the IDs and the
// CDI name that `from` has for `resource`. Used if `from` was recorded for the wrong container:
// kubelet assigned the IDs to `to`.
Allocation moved_to(const ContainerName& to, const Allocation& from, const std::string& resource);

}  // namespace tessera::agent
