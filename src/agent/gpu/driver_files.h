// agent/gpu/driver_files.h
//
// The files of NVIDIA's driver that a container needs and where they are, for nodes without
// NVIDIA's container runtime. They are found below a driver root, which is "/" on a machine with an
// installed driver, /run/nvidia/driver with NVIDIA's driver container, and
// /home/kubernetes/bin/nvidia on some clouds.
//
// Libraries for compute, utility and video are mounted, those for graphics are not. They are
// mounted
//   - where the image's dynamic linker looks by itself (default): no variable is needed, and an
//     image that sets LD_LIBRARY_PATH keeps its own; or
//   - in /usr/local/nvidia/lib64, with LD_LIBRARY_PATH: nothing of the image is covered, but the
//     variable replaces the image's (a pod's own env overrides both).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/devices/device.h"
#include "agent/devices/host_root.h"
#include "alloc/inventory.h"
#include "base/result.h"

namespace tessera::agent {

enum class LibraryPlace { kLinkerDirectories, kLibraryPath };

// "linker" or "env".
Result<LibraryPlace> parse_library_place(std::string_view text);

struct DriverFilesOptions {
  HostRoot driver{};
  HostRoot dev{.host = "/dev", .here = "/dev"};
  LibraryPlace place = LibraryPlace::kLinkerDirectories;
};

// What every container with a GPU gets.
struct DriverFiles {
  std::vector<MountPoint> mounts;
  std::vector<std::string> local_paths;  // of the mounts, as we see them
  std::string library_path;              // for LD_LIBRARY_PATH; empty when it is not needed
  bool has_cuda = false;                 // libcuda was found
};

// Fails with kNotFound, and says where it looked, when there is no driver library at all.
Result<DriverFiles> find_driver_files(const DriverFilesOptions& options);

// Where a library of the driver is for us, links followed; nothing when it is not there.
std::optional<std::string> find_driver_library(const HostRoot& driver, const std::string& name);

// The device nodes through which a container reaches these GPUs: those that all share (nvidiactl,
// nvidia-uvm and so on, as far as they exist) and one for each. Fails with the node that is missing
// and how to make it. None for no GPU.
Result<std::vector<DeviceNode>> device_nodes(const HostRoot& dev, const std::vector<alloc::Gpu>& gpus);

// Keeps what was found until one of the files is gone: then the driver was updated. Without libcuda
// it searches each time, because the driver may be in the middle of its installation.
class DriverFilesCache {
 public:
  explicit DriverFilesCache(DriverFilesOptions options) : options_(std::move(options)) {}

  Result<const DriverFiles*> get();
  // Returns what is missing without being fatal, once.
  std::optional<std::string> take_warning() { return std::exchange(warning_, std::nullopt); }
  [[nodiscard]] const DriverFilesOptions& options() const { return options_; }

 private:
  const DriverFilesOptions options_;
  std::optional<DriverFiles> found_;
  bool missed_cuda_ = false;
  std::optional<std::string> warning_;
};

// Returns the changes that let a container reach these GPUs and no others: device nodes, the files
// of the driver, NVIDIA_VISIBLE_DEVICES. Without GPUs, NVIDIA_VISIBLE_DEVICES hides them all. Fails
// with what is missing of the driver and how to get it.
Result<Edits> gpu_edits(DriverFilesCache& files, const std::vector<alloc::Gpu>& gpus);

}  // namespace tessera::agent
