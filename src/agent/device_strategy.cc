#include "agent/device_strategy.h"

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

// containerd makes a directory in place of a file that is to be mounted and is not there.
Status DeviceStrategy::before_start(const ContainerGpus& container) {
  Grant unused;
  return add_driver(files_, container.gpus, unused);
}

}  // namespace tessera::agent
