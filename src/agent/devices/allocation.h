// agent/devices/allocation.h
//
// What one container of this node got of one kind of device: for /allocations, for metrics, and to
// map processes to pods. A value; allocations.h keeps the values of a node.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/devices/pod_resources.h"

namespace tessera::agent {

// What a container has of one device: all of it, or some units.
struct DeviceShare {
  std::string device;              // the permanent name: the UUID of a GPU
  std::uint32_t units = 0;         // 0 for a whole device
  std::uint32_t core_percent = 0;  // of its compute time, where that is divided
  bool whole = false;

  friend bool operator==(const DeviceShare&, const DeviceShare&) = default;
};

// Resource -> IDs of it, sorted.
using IdsByResource = std::map<std::string, std::vector<std::string>>;

struct Allocation {
  PodName pod;
  std::string pod_uid;  // see is_unknown_pod()
  std::string container;
  // What it sees. Empty when it got nothing.
  std::vector<DeviceShare> shares{};
  // The IDs that kubelet took for it. They are of the same devices as `shares` unless kubelet chose
  // them itself (it reuses the IDs of init containers at random).
  IdsByResource ids{};
  // Resource -> the CDI name that kubelet got with these IDs, where the strategy uses CDI. kubelet
  // keeps the name for the life of the pod, even if the agent took another container to be the one
  // that asked.
  std::map<std::string, std::string> cdi_names{};
  // Edits::fixed of what it got, where kubelet keeps it for the life of the pod.
  std::string fixed{};
  // What could not be prepared at its admission and is missing for the life of the pod; empty:
  // nothing.
  std::string fault{};
  // kubelet has not confirmed that this container asked: another one may have the IDs.
  bool guessed = false;
  // Why it may not start at the moment; empty when it may.
  std::string start_block{};

  friend bool operator==(const Allocation&, const Allocation&) = default;
};

// Begins the UID of allocations whose pod was not known when kubelet asked. No pod has such a UID.
inline constexpr std::string_view kUnknownPod = "?";
inline bool is_unknown_pod(const std::string& pod_uid) {
  return pod_uid.starts_with(kUnknownPod);
}
// In place of the pod's UID in the CDI name of an unknown pod. No pod has such a UID.
inline constexpr std::string_view kUnknownCdiPod = "unknown";

std::string unknown_uid(const std::string& resource, const std::vector<std::string>& ids);

// Returns what `from` got for one resource as the allocation of `to`, which really has the IDs.
Allocation moved_to(const ContainerName& to, const Allocation& from, const std::string& resource);

}  // namespace tessera::agent
