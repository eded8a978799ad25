#include "agent/device_strategy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

namespace tessera::agent {

Status add_driver(DriverFilesCache& files, const std::vector<alloc::Gpu>& gpus, Grant& grant) {
  if (gpus.empty()) {
    return {};
  }
  const std::vector<DeviceNode> nodes = TRY(device_nodes(files.options().dev, gpus));
  const DriverFiles* driver = TRY(files.get());
  grant.nodes.insert(grant.nodes.end(), nodes.begin(), nodes.end());
  grant.mounts.insert(grant.mounts.end(), driver->mounts.begin(), driver->mounts.end());
  if (!driver->library_path.empty()) {
    grant.env["LD_LIBRARY_PATH"] = driver->library_path;
  }
  return {};
}

Status DeviceStrategy::add(const ContainerGpus& container, Grant& grant) {
  return add_driver(files_, container.gpus, grant);
}

// The nodes of the GPUs, and the files whose names tell the version of the driver. Not all that is given: a
// library more does no harm to a container that was given fewer.
std::string DeviceStrategy::fixed(const Grant& grant) const {
  std::string list;
  const auto put = [&](const std::string& path) { list += (list.empty() ? "" : ", ") + path; };
  for (const DeviceNode& node : grant.nodes) {
    constexpr std::string_view kGpu = "/dev/nvidia";
    if (node.container_path.starts_with(kGpu) && node.container_path.size() > kGpu.size() &&
        std::isdigit(static_cast<unsigned char>(node.container_path[kGpu.size()])) != 0) {
      put(node.host_path);
    }
  }
  std::set<std::string> files;
  for (const MountPoint& mount : grant.mounts) {
    if (mount.container_path.ends_with("/libcuda.so.1") ||
        mount.container_path.ends_with("/libnvidia-ml.so.1")) {
      files.insert(mount.host_path);
    }
  }
  std::ranges::for_each(files, put);
  return list;
}

// containerd makes a directory in place of a file that is to be mounted and is not there.
Status DeviceStrategy::before_start(const ContainerGpus& container) {
  Grant now;
  TRY(add_driver(files_, container.gpus, now));
  if (!container.fixed.empty() && container.fixed != fixed(now)) {
    return fail(
        ErrorCode::kUnavailable,
        fmt::format("it was admitted with {}, and by now its GPUs are reached through {}; kubelet keeps "
                    "what it was given, so delete the pod and let it be created again",
                    container.fixed, fixed(now)));
  }
  return {};
}

}  // namespace tessera::agent
