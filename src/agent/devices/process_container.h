// agent/devices/process_container.h
//
// Maps a process of the host to its container, by the cgroup of the process. This is needed because
// NVML reports processes and Kubernetes knows containers.
//
// Reads the host's /proc, which may be mounted at any path and read-only. Supports all cgroup paths
// that kubelet and container runtimes create:
//   cgroupfs   /kubepods/burstable/pod<UID>/<ID>
//   systemd    /kubepods.slice/kubepods-burstable.slice/
//                kubepods-burstable-pod<UID>.slice/cri-containerd-<ID>.scope
//   mixed      /system.slice/containerd.service/
//                kubepods-burstable-pod<UID>.slice:cri-containerd:<ID>
// The paths may be below any directory. If the agent has a cgroup namespace of its own, it sees
// relative paths (/../../...), which are supported too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/devices/pod_resources.h"
#include "alloc/pod.h"

namespace tessera::agent {

struct ContainerRef {
  std::string pod_uid;
  std::string container_id;  // empty: the process belongs to the pod, but to no known container

  friend auto operator<=>(const ContainerRef&, const ContainerRef&) = default;
};

// Parses the text of /proc/<pid>/cgroup, version 1 or 2. Returns nullopt if the process is not in a
// pod.
std::optional<ContainerRef> container_of_cgroup(std::string_view text);

// Like container_of_cgroup(), for the process `pid` in the proc file system at `proc_root`. Also
// returns nullopt if the process has ended.
std::optional<ContainerRef> container_of_process(const std::string& proc_root, std::uint32_t pid);

// Returns the name of a container; nullopt if `pods` contains no pod with the UID. The container is the
// one that has the container ID in the pod's status. If the status does not have the ID yet, the result
// is the pod's only container, or a ContainerName with an empty `container` if the pod has several
// containers.
std::optional<ContainerName> name_of_container(const std::vector<const alloc::PodSpec*>& pods,
                                               const ContainerRef& container);

}  // namespace tessera::agent
