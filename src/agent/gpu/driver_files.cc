#include "agent/gpu/driver_files.h"

#include <elf.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "alloc/names.h"

namespace tessera::agent {

namespace {

#if defined(__aarch64__)
constexpr unsigned kMachine = EM_AARCH64;
constexpr std::string_view kMultiarch = "aarch64-linux-gnu";
#else
constexpr unsigned kMachine = EM_X86_64;
constexpr std::string_view kMultiarch = "x86_64-linux-gnu";
#endif

constexpr std::string_view kOwnDirectory = "/usr/local/nvidia/lib64";

// Library names up to ".so".
constexpr std::array<std::string_view, 19> kLibraries{"libcuda",
                                                      "libcudadebugger",
                                                      "libnvidia-ml",
                                                      "libnvidia-cfg",
                                                      "libnvidia-ptxjitcompiler",
                                                      "libnvidia-nvvm",
                                                      "libnvidia-nvvm70",
                                                      "libnvidia-gpucomp",
                                                      "libnvidia-opencl",
                                                      "libnvidia-compiler",
                                                      "libnvidia-allocator",
                                                      "libnvidia-fatbinaryloader",
                                                      "libnvidia-pkcs11",
                                                      "libnvidia-pkcs11-openssl3",
                                                      "libnvidia-sandboxutils",
                                                      "libnvidia-nscq",
                                                      "libnvidia-encode",
                                                      "libnvcuvid",
                                                      "libnvidia-opticalflow"};

constexpr std::array<std::string_view, 4> kPrograms{"nvidia-smi", "nvidia-debugdump",
                                                    "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"};

constexpr std::array<std::string_view, 4> kSharedNodes{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools",
                                                       "nvidia-modeset"};

// Returns the directories to search. If several have a library of the same name, the first wins.
std::vector<std::string> library_directories() {
  const std::string multiarch(kMultiarch);
  return {"/usr/lib/" + multiarch,
          "/usr/lib/" + multiarch + "/nvidia/current",
          "/usr/lib64",
          "/usr/lib64/nvidia",
          "/lib/" + multiarch,
          "/lib64",
          "/usr/lib",
          "/lib",
          "/usr/local/nvidia/lib64",
          "/opt/nvidia/lib64"};
}

// /usr/lib/nvidia/current is Debian's. Its links in /usr/bin lead through /etc/alternatives, which
// the agent's pod does not see.
constexpr std::array<std::string_view, 7> kProgramDirectories{"/usr/bin",
                                                              "/usr/sbin",
                                                              "/bin",
                                                              "/usr/local/bin",
                                                              "/usr/local/nvidia/bin",
                                                              "/opt/bin",
                                                              "/usr/lib/nvidia/current"};

// Returns "libcuda" for "libcuda.so.550.54", and "" for a file that is not a shared library.
std::string_view library_stem(std::string_view name) {
  const std::size_t so = name.find(".so");
  if (so == std::string_view::npos || (name.size() > so + 3 && name[so + 3] != '.')) {
    return {};
  }
  return name.substr(0, so);
}

// Returns whether the file is a 64-bit library for this CPU. A 32-bit library may have the same
// name, and so may a linker script.
bool is_our_elf(const std::string& path) {
  std::array<char, EI_NIDENT + 4> head{};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(head.data(), head.size())) {
    return false;
  }
  std::uint16_t machine = 0;  // follows e_ident and e_type
  std::memcpy(&machine, head.data() + EI_NIDENT + 2, sizeof machine);
  return std::memcmp(head.data(), ELFMAG, SELFMAG) == 0 && head[EI_CLASS] == ELFCLASS64 &&
         machine == kMachine;
}

class Finder {
 public:
  explicit Finder(const DriverFilesOptions& options) : options_(options) {
    if (options.place == LibraryPlace::kLibraryPath) {
      targets_ = {std::string(kOwnDirectory)};
      files_.library_path = kOwnDirectory;
    } else {
      // Debian's and Ubuntu's linkers search the first directory, Red Hat's the second.
      targets_ = {"/usr/lib/" + std::string(kMultiarch), "/usr/lib64"};
    }
  }

  void find_libraries() {
    for (const std::string& directory : library_directories()) {
      for (const std::string& name : options_.driver.list(directory)) {
        const std::string_view stem = library_stem(name);
        if (std::ranges::find(kLibraries, stem) != kLibraries.end() && !seen_.contains(name)) {
          take_library(fmt::format("{}/{}", directory, name), name);
        }
      }
    }
  }

  void find_programs() {
    for (const std::string_view directory : kProgramDirectories) {
      for (const std::string_view name : kPrograms) {
        if (seen_.contains(std::string(name))) {
          continue;
        }
        if (const auto real = options_.driver.real_path(fmt::format("{}/{}", directory, name))) {
          seen_.emplace(name);
          mount(*real, fmt::format("/usr/bin/{}", name));
        }
      }
    }
  }

  [[nodiscard]] bool found_library() const { return found_library_; }
  DriverFiles take() { return std::move(files_); }

 private:
  void take_library(const std::string& path, const std::string& name) {
    const auto real = options_.driver.real_path(path);
    if (!real || !is_our_elf(options_.driver.local(*real))) {
      return;
    }
    seen_.insert(name);
    found_library_ = true;
    files_.has_cuda = files_.has_cuda || library_stem(name) == "libcuda";
    // A link cannot be mounted into a container, so the link's target is mounted under every name.
    for (const std::string& target : targets_) {
      mount(*real, fmt::format("{}/{}", target, name));
    }
  }

  void mount(const std::string& real, std::string container_path) {
    files_.mounts.push_back({.container_path = std::move(container_path),
                             .host_path = options_.driver.on_host(real),
                             .read_only = true});
    files_.local_paths.push_back(options_.driver.local(real));
  }

  const DriverFilesOptions& options_;
  std::vector<std::string> targets_;
  std::set<std::string, std::less<>> seen_;
  bool found_library_ = false;
  DriverFiles files_;
};

DeviceNode node_named(const HostRoot& dev, const std::string& name) {
  return {.container_path = "/dev/" + name, .host_path = dev.on_host("/" + name), .permissions = "rw"};
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::string visible_devices(const std::vector<alloc::Gpu>& gpus) {
  std::string list;
  for (const alloc::Gpu& gpu : gpus) {
    list += (list.empty() ? "" : ",") + gpu.uuid;
  }
  return list.empty() ? "void" : list;
}

// Returns Edits::fixed: the device nodes of the GPUs and the files whose names contain the driver
// version. It omits the other files, because a container that was admitted before the driver got an
// additional library works without it.
std::string fixed_parts(const Edits& edits) {
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

Result<LibraryPlace> parse_library_place(std::string_view text) {
  if (text == "linker") {
    return LibraryPlace::kLinkerDirectories;
  }
  if (text == "env") {
    return LibraryPlace::kLibraryPath;
  }
  return fail(ErrorCode::kInvalid,
              fmt::format("\"{}\" is not a place for driver libraries; use linker or env", text));
}

Result<DriverFiles> find_driver_files(const DriverFilesOptions& options) {
  Finder finder(options);
  finder.find_libraries();
  if (!finder.found_library()) {
    return fail(
        ErrorCode::kNotFound,
        fmt::format("no library of the NVIDIA driver for {} below {} (on the host {}); if the driver is "
                    "elsewhere, set --driver-root",
                    kMultiarch, options.driver.here, options.driver.host));
  }
  finder.find_programs();
  return finder.take();
}

std::optional<std::string> find_driver_library(const HostRoot& driver, const std::string& name) {
  for (const std::string& directory : library_directories()) {
    const auto real = driver.real_path(fmt::format("{}/{}", directory, name));
    if (real && is_our_elf(driver.local(*real))) {
      return driver.local(*real);
    }
  }
  return std::nullopt;
}

Result<std::vector<DeviceNode>> device_nodes(const HostRoot& dev, const std::vector<alloc::Gpu>& gpus) {
  std::vector<DeviceNode> nodes;
  if (gpus.empty()) {
    return nodes;
  }
  for (const std::string_view name : kSharedNodes) {
    if (exists(dev.local(fmt::format("/{}", name)))) {
      nodes.push_back(node_named(dev, std::string(name)));
    }
  }
  for (const alloc::Gpu& gpu : gpus) {
    if (gpu.minor < 0) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("GPU {}: the driver does not report its minor number, so its device node is "
                              "unknown; use strategy env",
                              gpu.uuid));
    }
    const std::string name = fmt::format("nvidia{}", gpu.minor);
    if (!exists(dev.local("/" + name))) {
      return fail(ErrorCode::kNotFound,
                  fmt::format("GPU {}: {} does not exist; run nvidia-smi on the host to create it", gpu.uuid,
                              dev.on_host("/" + name)));
    }
    nodes.push_back(node_named(dev, name));
  }
  return nodes;
}

Result<const DriverFiles*> DriverFilesCache::get() {
  if (!found_ || !found_->has_cuda || !std::ranges::all_of(found_->local_paths, exists)) {
    found_.reset();
    found_ = TRY(find_driver_files(options_));
    if (!found_->has_cuda && !std::exchange(missed_cuda_, true)) {
      warning_ = fmt::format(
          "no libcuda.so among the driver's libraries below {}: programs in containers cannot use "
          "CUDA; install the driver's compute libraries",
          options_.driver.host);
    }
  }
  return &*found_;
}

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
  edits.fixed = fixed_parts(edits);
  return edits;
}

}  // namespace tessera::agent
