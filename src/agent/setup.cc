#include "agent/setup.h"

#include <filesystem>
#include <utility>

#include "agent/cdi_strategy.h"
#include "agent/device_strategy.h"
#include "agent/driver_files.h"
#include "base/log.h"
#include "gpu/nvml_library.h"

namespace tessera::agent {

std::string usable_state_dir(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    log::error("no place to keep records; after a restart they are rebuilt from kubelet and the API server",
               {{"directory", path}, {"why", error.message()}});
    return "";
  }
  return path;
}

std::string below(const std::string& directory, const char* name) {
  return directory.empty() ? "" : directory + "/" + name;
}

namespace {

HostRoot driver_root(const Paths& paths) {
  return {.host = paths.driver_root, .here = paths.driver_here()};
}

}  // namespace

std::string find_nvml(const Paths& paths) {
  const std::string name(gpu::NvmlLibrary::kDefaultPath);
  return paths.nvml_library.empty() ? find_driver_library(driver_root(paths), name).value_or(name)
                                    : paths.nvml_library;
}

std::unique_ptr<GrantStrategy> make_strategy(const Config& config,
                                             std::function<void(const std::string&)> warn) {
  DriverFilesOptions files;
  files.driver = driver_root(config.paths);
  files.dev = {.host = config.paths.dev_root, .here = config.paths.dev_here()};
  files.place = config.driver_libraries;
  files.warn = std::move(warn);
  switch (config.strategy) {
    case StrategyKind::kDevices:
      return std::make_unique<DeviceStrategy>(std::move(files));
    case StrategyKind::kCdi:
      return std::make_unique<CdiStrategy>(config.paths.cdi_dir, std::move(files));
    case StrategyKind::kEnv:
      break;
  }
  return std::make_unique<EnvStrategy>();
}

}  // namespace tessera::agent
