#include "agent/devices/cdi_strategy.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/log.h"

namespace tessera::agent {

namespace fs = std::filesystem;

// Returns the CDI names of a container. Fails if a name, which may come from the state file, is
// invalid: names become parts of paths.
Result<std::vector<std::string>> CdiStrategy::devices_of(const ContainerEdits& container) const {
  if (container.cdi_names.empty()) {
    return std::vector{TRY(cdi_device_name(container.pod_uid, container.container))};
  }
  for (const std::string& name : container.cdi_names) {
    if (!kind_.device_of_file(kind_.file_name(name))) {
      return fail(ErrorCode::kInvalid, fmt::format("\"{}\" is not a CDI device name", name));
    }
  }
  return container.cdi_names;
}

std::string CdiStrategy::path_of(const std::string& device) const {
  return (fs::path(directory_) / kind_.file_name(device)).string();
}

Status CdiStrategy::write(const std::string& device, const ContainerEdits& container) {
  Edits edits = TRY(container.edits);
  edits.env.insert(container.env.begin(), container.env.end());
  const std::string document = kind_.spec(device, edits);
  const std::string path = path_of(device);
  // At most starts the file is up to date. A write would make the runtime read all files again.
  if (const auto now = read_file(path); now && *now == document) {
    return {};
  }
  std::error_code error;
  fs::create_directories(directory_, error);
  return write_file(path, document);
}

Status CdiStrategy::add(const ContainerEdits& container, ContainerResponse& response) {
  const std::vector<std::string> devices = TRY(devices_of(container));
  // Add the name first: if the write fails, before_start() can still write the file.
  for (const std::string& device : devices) {
    const std::string name = kind_.qualified_name(device);
    if (std::ranges::find(response.cdi_devices, name) == response.cdi_devices.end()) {
      response.cdi_devices.push_back(name);
    }
    TRY(write(device, container));
  }
  return {};
}

Status CdiStrategy::before_start(const ContainerEdits& container) {
  for (const std::string& device : TRY(devices_of(container))) {
    TRY(write(device, container));
  }
  return {};
}

void CdiStrategy::remove_unneeded(const Needed& needed) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(directory_, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const auto device = kind_.device_of_file(entry->path().filename().string());
    if (device && !needed(pod_of_cdi_device(*device), *device)) {
      files.push_back(entry->path());
    }
  }
  for (const fs::path& file : files) {
    fs::remove(file, error);
    if (error) {
      log::warn("cannot remove CDI file", {{"file", file.string()}, {"error", error.message()}});
    }
  }
}

}  // namespace tessera::agent
