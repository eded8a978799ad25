#include "agent/cdi_strategy.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "agent/cdi_spec.h"
#include "agent/device_strategy.h"
#include "alloc/names.h"
#include "base/file.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

namespace fs = std::filesystem;

std::string visible_devices(const std::vector<alloc::Gpu>& gpus) {
  std::string list;
  for (const alloc::Gpu& gpu : gpus) {
    list += (list.empty() ? "" : ",") + gpu.uuid;
  }
  return list.empty() ? "void" : list;
}

// The names of a container. Those that come from outside, as our own file of what was given, become parts of
// paths.
Result<std::vector<std::string>> devices_of(const ContainerGpus& container) {
  if (container.cdi_names.empty()) {
    return std::vector{TRY(cdi_device_name(container.pod_uid, container.container))};
  }
  for (const std::string& name : container.cdi_names) {
    if (!device_of_cdi_file(cdi_file_name(name))) {
      return fail(ErrorCode::kInvalid, fmt::format("\"{}\" is no CDI device name", name));
    }
  }
  return container.cdi_names;
}

}  // namespace

std::string CdiStrategy::path_of(const std::string& device) const {
  return (fs::path(directory_) / cdi_file_name(device)).string();
}

Status CdiStrategy::write(const std::string& device, const ContainerGpus& container, Env env) {
  Grant edits;
  edits.env = std::move(env);
  edits.env[std::string(alloc::key::kVisibleDevices)] = visible_devices(container.gpus);
  TRY(add_driver(files_, container.gpus, edits));
  const std::string document = cdi_spec(device, edits);
  const std::string path = path_of(device);
  // Most starts find the file as it should be; a write would make the runtime read all files anew.
  if (const auto now = read_file(path); now && *now == document) {
    return {};
  }
  std::error_code error;
  fs::create_directories(directory_, error);
  return write_file(path, document);
}

Status CdiStrategy::add(const ContainerGpus& container, Grant& grant) {
  const std::vector<std::string> devices = TRY(devices_of(container));
  // The name first: whatever fails now can be mended before the container starts.
  for (const std::string& device : devices) {
    const std::string name = cdi_qualified_name(device);
    if (std::ranges::find(grant.cdi_devices, name) == grant.cdi_devices.end()) {
      grant.cdi_devices.push_back(name);
    }
    TRY(write(device, container, grant.env));
  }
  return {};
}

Status CdiStrategy::before_start(const ContainerGpus& container) {
  const std::vector<std::string> devices = TRY(devices_of(container));
  for (const std::string& device : devices) {
    Env env = container.env;
    if (env.empty()) {
      if (const auto now = read_file(path_of(device))) {
        env = cdi_spec_env(*now).value_or(Env{});
        env.erase("LD_LIBRARY_PATH");  // of another driver, perhaps
      }
    }
    TRY(write(device, container, std::move(env)));
  }
  return {};
}

void CdiStrategy::keep_only(const Needed& needed) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(directory_, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const auto device = device_of_cdi_file(entry->path().filename().string());
    if (device && !needed(pod_of_cdi_device(*device), *device)) {
      files.push_back(entry->path());
    }
  }
  for (const fs::path& file : files) {
    fs::remove(file, error);
    if (error) {
      log::warn("CDI file not removed", {{"file", file.string()}, {"why", error.message()}});
    }
  }
}

}  // namespace tessera::agent
