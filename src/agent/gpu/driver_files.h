// agent/gpu/driver_files.h
//
// Finds the files of the NVIDIA driver that a container needs, for nodes without NVIDIA's container
// runtime. All of them are below the driver root: "/" on a machine with an installed driver,
// /run/nvidia/driver with NVIDIA's driver container, /home/kubernetes/bin/nvidia on some clouds.
//
// Libraries for compute, utility and video are mounted; libraries for graphics are not. A setting
// selects where they are mounted:
//   - In the directories that the image's dynamic linker searches (default). No variable is set, so
//     an image keeps its own LD_LIBRARY_PATH.
//   - In /usr/local/nvidia/lib64. No file of the image is hidden. LD_LIBRARY_PATH is set to this
//     directory and replaces the value of the image. A value in the pod's own env takes precedence.
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

// Parses "linker" (kLinkerDirectories) or "env" (kLibraryPath). Fails with kInvalid for other text.
Result<LibraryPlace> parse_library_place(std::string_view text);

struct DriverFilesOptions {
  HostRoot driver{};
  HostRoot dev{.host = "/dev", .here = "/dev"};
  LibraryPlace place = LibraryPlace::kLinkerDirectories;
};

// The driver files that are mounted into every container with a GPU.
struct DriverFiles {
  std::vector<MountPoint> mounts;
  std::vector<std::string> local_paths;  // host paths of the mounts, as this process sees them
  std::string library_path;              // value of LD_LIBRARY_PATH; empty: not set
  bool has_cuda = false;                 // libcuda was found
};

// Searches the driver root for the files that containers need. Fails with kNotFound if there is no
// driver library at all. The error names the directory searched.
Result<DriverFiles> find_driver_files(const DriverFilesOptions& options);

// Returns the path of a driver library as this process sees it, with links resolved; nullopt if
// there is no such library.
std::optional<std::string> find_driver_library(const HostRoot& driver, const std::string& name);

// Returns the device nodes that give a container access to these GPUs: the shared ones that exist
// (nvidiactl, nvidia-uvm and so on) and one per GPU. If `gpus` is empty, returns no device nodes.
// Fails if the device node of a GPU is missing; the error says how to create it.
Result<std::vector<DeviceNode>> device_nodes(const HostRoot& dev, const std::vector<alloc::Gpu>& gpus);

// Caches the driver files. Searches again in two cases: one of the files no longer exists, because
// the driver was updated; or libcuda was not found, because the driver may not be fully installed
// yet.
class DriverFilesCache {
 public:
  explicit DriverFilesCache(DriverFilesOptions options) : options_(std::move(options)) {}

  // Returns the driver files. Fails as find_driver_files() does. The pointer is valid until the
  // next call.
  Result<const DriverFiles*> get();
  // Returns the warning that a search did not find libcuda. Returns it once; nullopt otherwise.
  std::optional<std::string> take_warning() { return std::exchange(warning_, std::nullopt); }
  [[nodiscard]] const DriverFilesOptions& options() const { return options_; }

 private:
  const DriverFilesOptions options_;
  std::optional<DriverFiles> found_;
  bool missed_cuda_ = false;
  std::optional<std::string> warning_;
};

// Returns the changes that give a container access to these GPUs and no others: device nodes,
// driver files and NVIDIA_VISIBLE_DEVICES. If `gpus` is empty, only NVIDIA_VISIBLE_DEVICES is set,
// to a value that hides all GPUs. The error says which part of the driver is missing and how to get
// it.
Result<Edits> gpu_edits(DriverFilesCache& files, const std::vector<alloc::Gpu>& gpus);

}  // namespace tessera::agent
