// agent/devices/process_container.h
//
// Finds the container of a process of the host by its cgroup. NVML reports processes, Kubernetes
// knows containers.
//
// Reads the host's /proc, which may be mounted anywhere, read-only. Understands all forms that
// kubelet and container runtimes create:
//   cgroupfs   /kubepods/burstable/pod<UID>/<ID>
//   systemd    /kubepods.slice/kubepods-burstable.slice/
//                kubepods-burstable-pod<UID>.slice/cri-containerd-<ID>.scope
//   mixed      /system.slice/containerd.service/
//                kubepods-burstable-pod<UID>.slice:cri-containerd:<ID>
// below any directory, including relative ones (/../../...), which a cgroup namespace of the agent
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
  std::string container_id;  // empty: a process of the pod, but of no known container

  friend auto operator<=>(const ContainerRef&, const ContainerRef&) = default;
};

// Parses the text of /proc/<pid>/cgroup, version 1 or 2. Nothing for a process outside of pods.
std::optional<ContainerRef> container_of_cgroup(std::string_view text);

// Reads a proc file system. Nothing also if the process has ended.
std::optional<ContainerRef> container_of_process(const std::string& proc_root, std::uint32_t pid);

// Finds a container by the ID in the pod's status, or, while kubelet has not written that yet, as
// the only container of its pod. Nothing if the pod is not among `pods`.
std::optional<ContainerName> name_of_container(const std::vector<const alloc::PodSpec*>& pods,
                                               const ContainerRef& container);

}  // namespace tessera::agent
