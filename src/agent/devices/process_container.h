// agent/devices/process_container.h
//
// Which container a process of the host belongs to, as its cgroup tells. NVML knows processes, Kubernetes
// knows containers; this is the way from one to the other.
//
// Read from the host's /proc, mounted somewhere read-only. All forms that kubelet and container runtimes
// make are understood:
//   cgroupfs   /kubepods/burstable/pod<UID>/<ID>
//   systemd
//   /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<UID>.slice/cri-containerd-<ID>.scope
//   mixed      /system.slice/containerd.service/kubepods-burstable-pod<UID>.slice:cri-containerd:<ID>
// with any directory above, relative ones too (/../../...), which is what a cgroup namespace of our own
// shows.
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
  std::string container_id;  // empty: a process of the pod, but of no container that is told

  friend auto operator<=>(const ContainerRef&, const ContainerRef&) = default;
};

// From the text of /proc/<pid>/cgroup, version 1 or 2. Nothing for a process of no pod.
std::optional<ContainerRef> container_of_cgroup(std::string_view text);

// From a proc file system. Nothing also when the process has ended.
std::optional<ContainerRef> container_of_process(const std::string& proc_root, std::uint32_t pid);

// A container as people call it.
struct ContainerName {
  PodName pod;
  std::string pod_uid;
  std::string container;

  friend auto operator<=>(const ContainerName&, const ContainerName&) = default;
};

// Found by the ID in the pod's status. While kubelet has not written that yet: by being the only one of its
// pod. Nothing when the pod is not among these.
std::optional<ContainerName> name_of_container(const std::vector<const alloc::PodSpec*>& pods,
                                               const ContainerRef& container);

}  // namespace tessera::agent
