#include "machine_tree.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "settings.h"

namespace tessera::nvml_sim {

namespace {

namespace fs = std::filesystem;

constexpr unsigned kGpuMajor = 195;  // fixed by the driver
constexpr unsigned kUvmMajor = 511;  // dynamic in a real kernel; any free number works
constexpr unsigned kControlMinor = 255;
constexpr unsigned kModesetMinor = 254;

Error failed(std::string_view what, const std::string& path, const std::error_code& error) {
  return {ErrorCode::kUnavailable, fmt::format("cannot {} {}: {}", what, path, error.message())};
}

Status make_directory(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    return fail(failed("create directory", path, error));
  }
  return {};
}

Status write_link(const std::string& path, const std::string& target) {
  std::error_code error;
  if (fs::is_symlink(path, error) && fs::read_symlink(path, error) == target) {
    return {};
  }
  fs::remove_all(path, error);
  fs::create_symlink(target, path, error);
  if (error) {
    return fail(failed("create link", path, error));
  }
  return {};
}

Status write_entry(const std::string& path, const TreeEntry& entry) {
  TRY(make_directory(fs::path(path).parent_path().string()));
  if (entry.link) {
    return write_link(path, entry.text);
  }
  const auto there = read_file(path);
  return there && *there == entry.text ? Status() : write_file(path, entry.text);
}

// Removes everything below `root` that is not in the tree, including directories that became empty.
void remove_others(const Tree& tree, const std::string& root) {
  std::vector<fs::path> others;
  std::vector<fs::path> directories;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_directory() && !entry->is_symlink()) {
      directories.push_back(entry->path());
    } else if (!tree.contains(fs::relative(entry->path().parent_path(), root).string() + "/" +
                              entry->path().filename().string())) {
      others.push_back(entry->path());
    }
  }
  for (const fs::path& path : others) {
    fs::remove(path, error);
  }
  // The walk visits parents before children, so remove in reverse order. Keep non-empty
  // directories.
  std::ranges::reverse(directories);
  for (const fs::path& path : directories) {
    if (fs::is_empty(path, error)) {
      fs::remove(path, error);
    }
  }
}

Status make_node(const std::string& path, unsigned major, unsigned minor) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0) {
    return {};
  }
  if (::mknod(path.c_str(), S_IFCHR | 0666, makedev(major, minor)) == 0) {
    ::chmod(path.c_str(), 0666);
    return {};
  }
  if (errno != EPERM && errno != EACCES) {
    return fail(Error::from_errno("mknod " + path, errno));
  }
  return write_file(path, "");
}

// Fills in missing options from the settings of the existing directory.
Result<TreeOptions> completed(TreeOptions options) {
  const std::string library_directory = options.directory + "/" + kLibraryDirectory;
  const auto text = read_file(library_directory + "/" + kSettingsFile);
  if (text) {
    const Settings before = TRY(parse_settings(*text, library_directory));
    options.machine = options.machine.empty() ? before.machine : options.machine;
    options.node = options.node.empty() ? before.node : options.node;
  }
  if (options.machine.empty()) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{} has no machine yet; choose one with --machine", options.directory));
  }
  options.node = options.node.empty() ? "node" : options.node;
  return options;
}

Status copy_library(const TreeOptions& options) {
  const std::string target = fmt::format("{}/{}/{}", options.directory, kLibraryDirectory, kLibraryName);
  if (options.library.empty() || fs::exists(target)) {
    return {};
  }
  std::error_code error;
  fs::copy_file(options.library, target, error);
  if (error) {
    return fail(failed("copy the simulated library to", target, error));
  }
  return {};
}

}  // namespace

Status write_tree(const Tree& tree, const std::string& root) {
  TRY(make_directory(root));
  // Devices first, then the links that make them visible.
  for (const bool links : {false, true}) {
    for (const auto& [path, entry] : tree) {
      if (entry.link == links) {
        TRY(write_entry(fmt::format("{}/{}", root, path), entry));
      }
    }
  }
  remove_others(tree, root);
  return {};
}

Status write_devices(const sim::Machine& machine, const std::set<unsigned>& removed,
                     const std::string& root) {
  TRY(make_directory(root));
  TRY(make_node(root + "/nvidiactl", kGpuMajor, kControlMinor));
  TRY(make_node(root + "/nvidia-modeset", kGpuMajor, kModesetMinor));
  TRY(make_node(root + "/nvidia-uvm", kUvmMajor, 0));
  TRY(make_node(root + "/nvidia-uvm-tools", kUvmMajor, 1));
  for (unsigned gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    const auto minor = static_cast<unsigned>(machine.gpus[gpu].minor);
    const std::string path = fmt::format("{}/nvidia{}", root, minor);
    if (removed.contains(gpu)) {
      std::error_code ignored;
      fs::remove(path, ignored);
    } else {
      TRY(make_node(path, kGpuMajor, minor));
    }
  }
  return {};
}

Status make_machine(const TreeOptions& given) {
  const TreeOptions options = TRY(completed(given));
  const sim::Machine machine = TRY(sim::load_machine(options.machine));
  TRY(make_directory(options.directory + "/" + kLibraryDirectory));

  const std::string control_path = options.directory + "/control.yaml";
  Control control;
  if (const auto text = read_file(control_path)) {
    control =
        TRY(with_context(Control::parse(*text, static_cast<unsigned>(machine.gpus.size())), control_path));
  } else {
    TRY(write_file(control_path,
                   "# The current faults of this machine; docs/simulated-gpus.md lists all keys.\n"));
  }
  std::error_code ignored;
  const bool is_file = options.machine.find('/') != std::string::npos || options.machine.ends_with(".yaml");
  const std::string name = is_file ? fs::absolute(options.machine, ignored).string() : options.machine;
  TRY(write_file(fmt::format("{}/{}/{}", options.directory, kLibraryDirectory, kSettingsFile),
                 fmt::format("machine: {}\nnode: {}\ncontrol: ../../../control.yaml\n", name, options.node)));
  TRY(copy_library(options));
  TRY(write_tree(sysfs_tree(machine, control.removed), options.directory + "/sys"));
  return write_devices(machine, control.removed, options.directory + "/dev");
}

}  // namespace tessera::nvml_sim
