#include "agent/gpu/gpu_edits.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <string_view>

#include "alloc/names.h"

namespace tessera::agent {

namespace {

std::string visible_devices(const std::vector<alloc::Gpu>& gpus) {
  std::string list;
  for (const alloc::Gpu& gpu : gpus) {
    list += (list.empty() ? "" : ",") + gpu.uuid;
  }
  return list.empty() ? "void" : list;
}

// The nodes of the GPUs, and the files whose names tell the version of the driver. Not all that is given: a
// library more does no harm to a container that was given fewer.
std::string what_is_fixed(const Edits& edits) {
  std::string list;
  const auto put = [&](const std::string& path) { list += (list.empty() ? "" : ", ") + path; };
  for (const DeviceNode& node : edits.nodes) {
    constexpr std::string_view kGpu = "/dev/nvidia";
    if (node.container_path.starts_with(kGpu) && node.container_path.size() > kGpu.size() &&
        std::isdigit(static_cast<unsigned char>(node.container_path[kGpu.size()])) != 0) {
      put(node.host_path);
    }
  }
  std::set<std::string> files;
  for (const MountPoint& mount : edits.mounts) {
    if (mount.container_path.ends_with("/libcuda.so.1") ||
        mount.container_path.ends_with("/libnvidia-ml.so.1")) {
      files.insert(mount.host_path);
    }
  }
  std::ranges::for_each(files, put);
  return list;
}

}  // namespace

Result<Edits> gpu_edits(DriverFilesCache& files, const std::vector<alloc::Gpu>& gpus) {
  Edits edits;
  edits.env[std::string(alloc::key::kVisibleDevices)] = visible_devices(gpus);
  if (gpus.empty()) {
    return edits;
  }
  edits.nodes = TRY(device_nodes(files.options().dev, gpus));
  const DriverFiles* driver = TRY(files.get());
  edits.mounts = driver->mounts;
  if (!driver->library_path.empty()) {
    edits.env["LD_LIBRARY_PATH"] = driver->library_path;
  }
  edits.fixed = what_is_fixed(edits);
  return edits;
}

}  // namespace tessera::agent
