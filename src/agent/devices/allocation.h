// agent/devices/allocation.h
//
// What one container of this node was given of one kind of device: for /allocations, metrics and whoever maps
// processes to pods. A value; the ledger that keep it are in allocations.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/devices/pod_resources.h"

namespace tessera::agent {

// What a container has of one device: all of it, or so many units.
struct Share {
  std::string device;              // by the name that lasts: the UUID of a GPU
  std::uint32_t units = 0;         // 0 for a whole device
  std::uint32_t core_percent = 0;  // of its time, where that is divided
  bool whole = false;

  friend bool operator==(const Share&, const Share&) = default;
};

// Resource -> IDs of it, sorted.
using IdsByResource = std::map<std::string, std::vector<std::string>>;

struct Allocation {
  PodName pod;
  std::string pod_uid;  // see is_unknown_pod()
  std::string container;
  // What it sees of which device. Empty when it was given nothing.
  std::vector<Share> shares{};
  // The IDs that kubelet took for it. They are of the same devices as `shares` unless kubelet chose on its
  // own (it reuses the IDs of init containers at random).
  IdsByResource ids{};
  // Resource -> the CDI name that kubelet was handed with these IDs, where the strategy has such. It stays
  // with them for the life of the pod, whoever was taken to be asking when it was made.
  std::map<std::string, std::string> cdi_names{};
  // Edits::fixed of what it was handed, where kubelet keeps it.
  std::string fixed{};
  // What could not be prepared when it was admitted, and is missing for the life of the pod; empty when
  // nothing is.
  std::string fault{};
  // kubelet has not said that it was this container that asked: another one may have it.
  bool guessed = false;
  // Why it is not allowed to start at the moment; empty when it is.
  std::string held{};

  friend bool operator==(const Allocation&, const Allocation&) = default;
};

// Whose IDs these are was not known when kubelet asked: they stand under a name that no pod has.
inline constexpr std::string_view kUnknownPod = "?";
inline bool is_unknown_pod(const std::string& pod_uid) {
  return pod_uid.starts_with(kUnknownPod);
}

std::string unknown_uid(const std::string& resource, const std::vector<std::string>& ids);

// What `from` was handed for one resource, as that of the container which really has the IDs.
Allocation handed_on(const Allocation& from, const std::string& resource, const PodName& pod,
                     const std::string& pod_uid, const std::string& container);

}  // namespace tessera::agent
