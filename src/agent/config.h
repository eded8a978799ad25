// agent/config.h
//
// The configuration of the agent. A later source overrides an earlier one:
//
//   defaults < environment (NODE_NAME, LOG_LEVEL) < YAML file (--config) < flags
//
// docs/reference.md lists every setting. Config is a plain value; it is valid after complete() has
// succeeded.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/gpu/driver_files.h"
#include "agent/gpu/memory_judge.h"
#include "alloc/names.h"
#include "alloc/units.h"
#include "base/log.h"
#include "base/result.h"
#include "daemon/config_flags.h"
#include "gpu/xid.h"

namespace tessera::agent {

// How containers get access to their GPUs (delivery_strategy.h).
enum class StrategyKind { kEnv, kDevices, kCdi };

// Files and directories. The agent runs in a container, where a directory of the host may be
// mounted at another path. Such a directory has two settings: its path on the host, for kubelet and
// the container runtime, and its path in this process (`..._here`).
struct Paths {
  std::string nvml_library;       // empty: found below the driver root, else by the dynamic linker
  std::string driver_root = "/";  // as the host sees it
  std::string driver_root_here;   // as this process sees it; empty: driver_root
  std::string dev_root = "/dev";  // as the host sees it
  std::string dev_root_here;      // as this process sees it; empty: dev_root
  std::string sysfs_root = "/sys";
  std::string proc_root = "/proc";
  std::string kubelet_dir = "/var/lib/kubelet";
  std::string cdi_dir = "/var/run/cdi";
  std::string state_dir = "/var/lib/tessera";

  [[nodiscard]] const std::string& driver_here() const {
    return driver_root_here.empty() ? driver_root : driver_root_here;
  }
  [[nodiscard]] const std::string& dev_here() const {
    return dev_root_here.empty() ? dev_root : dev_root_here;
  }
  [[nodiscard]] std::string plugin_dir() const { return kubelet_dir + "/device-plugins"; }
  [[nodiscard]] std::string pod_resources_socket() const {
    return kubelet_dir + "/pod-resources/kubelet.sock";
  }
};

struct Config {
  std::string node_name;   // empty: the host name
  std::string kubeconfig;  // empty: $KUBECONFIG, ~/.kube/config, or the pod's service account
  // Listen address for health, metrics and /allocations.
  std::string address = "0.0.0.0";
  std::uint16_t port = 39997;
  log::Options log;

  alloc::Unit unit;
  bool subtract_driver_memory = false;
  alloc::ResourceNames::Config resources;
  std::string machine;  // machine type; empty: the product name that sysfs reports
  StrategyKind strategy = StrategyKind::kEnv;
  LibraryPlace driver_libraries = LibraryPlace::kLinkerDirectories;  // not used by kEnv
  gpu::XidRules xids;
  bool node_labels = true;
  bool legacy_annotations = true;
  bool node_condition = true;
  // Whether to write the ConfigMap that lists unhealthy GPUs. The original extenders read it.
  bool unhealthy_config_map = true;
  std::string unhealthy_config_map_namespace = "kube-system";

  // Rules for containers that use more GPU memory than they request.
  MemoryRules memory;
  std::chrono::milliseconds sample_every{10'000};  // how often GPU use is sampled

  // How long the agent waits, before it ends, for the extender to stop binding pods to the node. If 0,
  // the agent does not wait.
  std::chrono::milliseconds drain_timeout{10'000};

  Paths paths;
};

// Sets `config` from NODE_NAME and LOG_LEVEL. Fails if the log level is invalid.
Status apply_environment(const daemon::Environment& environment, Config& config);

// Overrides `config` with the settings in `yaml`. Errors begin with "NAME:LINE:COLUMN:", where NAME
// is `name`, the file that contains `yaml`.
Status apply_yaml(std::string_view yaml, const std::string& name, Config& config);

// Validates the configuration and fills in missing values, such as the node name. Errors begin with
// the setting's path and a colon.
Status complete(Config& config);

}  // namespace tessera::agent
