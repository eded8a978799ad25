#include "agent/setup.h"

#include <filesystem>
#include <string>

#include "agent/devices/cdi_strategy.h"
#include "agent/devices/device_strategy.h"
#include "agent/gpu/gpu_text.h"
#include "base/log.h"
#include "gpu/nvml_library.h"

namespace tessera::agent {

namespace {

// Creates the directory for files that survive a restart. Returns "" if that fails.
std::string usable_state_dir(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    log::error(
        "state directory not usable; after a restart, allocations are rebuilt from kubelet and the API "
        "server",
        {{"directory", path}, {"error", error.message()}});
    return "";
  }
  return path;
}

HostRoot driver_root(const Paths& paths) {
  return {.host = paths.driver_root, .here = paths.driver_here()};
}

// Returns the path of NVML: as configured, else below the driver root, else the name that the
// dynamic loader resolves.
std::string find_nvml(const Paths& paths) {
  const std::string name(gpu::NvmlLibrary::kDefaultPath);
  return paths.nvml_library.empty() ? find_driver_library(driver_root(paths), name).value_or(name)
                                    : paths.nvml_library;
}

gpu::DriverOptions driver_options(const Config& config) {
  gpu::DriverOptions options;
  options.library = [paths = config.paths] { return find_nvml(paths); };
  options.sysfs_root = config.paths.sysfs_root;
  options.discovery.unit = config.unit;
  options.discovery.subtract_reserved = config.subtract_driver_memory;
  options.discovery.machine = config.machine;
  options.health.xids = config.xids;
  return options;
}

}  // namespace

NodeGpusOptions gpu_options(const Config& config) {
  NodeGpusOptions options{.node = config.node_name,
                          .state_dir = usable_state_dir(config.paths.state_dir),
                          .driver = [config] { return driver_options(config); }};
  options.files.driver = driver_root(config.paths);
  options.files.dev = {.host = config.paths.dev_root, .here = config.paths.dev_here()};
  options.files.place = config.driver_libraries;
  options.plugins.directory = config.paths.plugin_dir();
  options.usage = {.node = config.node_name,
                   .memory = config.memory,
                   .sampler = {.every = config.sample_every, .proc_root = config.paths.proc_root}};
  options.writer.metadata = {.labels = config.node_labels, .legacy = config.legacy_annotations};
  options.health = {.node = config.node_name,
                    .condition = config.node_condition,
                    .config_map = config.unhealthy_config_map,
                    .config_map_namespace = config.unhealthy_config_map_namespace};
  return options;
}

std::unique_ptr<GrantStrategy> make_strategy(const Config& config) {
  switch (config.strategy) {
    case StrategyKind::kDevices:
      return std::make_unique<DeviceStrategy>(gpu_words().many);
    case StrategyKind::kCdi:
      return std::make_unique<CdiStrategy>(config.paths.cdi_dir, gpu_cdi_kind());
    case StrategyKind::kEnv:
      break;
  }
  return std::make_unique<EnvStrategy>();
}

}  // namespace tessera::agent
