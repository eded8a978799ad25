// agent/config.h
//
// Everything that can be set, from four places; a later one wins:
//
//   defaults < environment (NODE_NAME, LOG_LEVEL) < YAML file (--config) < flags
//
// docs/agent.md is the reference for people. A value; checked when it exists.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "agent/gpu/driver_files.h"
#include "agent/gpu/memory_judge.h"
#include "alloc/names.h"
#include "alloc/units.h"
#include "base/log.h"
#include "base/result.h"
#include "gpu/xid.h"

namespace tessera::agent {

// How containers come to see their GPUs (delivery_strategy.h).
enum class StrategyKind { kEnv, kDevices, kCdi };

// Where things are. Two paths for what both the host (kubelet, the container runtime) and this
// process use: inside a container the host's files hang somewhere else.
struct Paths {
  std::string nvml_library;       // empty: found below the driver root, else by the dynamic linker
  std::string driver_root = "/";  // as the host sees it
  std::string driver_root_here;   // as this process sees it; empty: the same
  std::string dev_root = "/dev";  // as the host sees it
  std::string dev_root_here;      // as this process sees it; empty: the same
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
  std::string node_name;   // empty: what the machine is called
  std::string kubeconfig;  // empty: $KUBECONFIG, ~/.kube/config, or the pod's service account
  // Probes, metrics and /allocations.
  std::string address = "0.0.0.0";
  std::uint16_t port = 39997;
  log::Options log;

  alloc::Unit unit;
  bool subtract_driver_memory = false;
  alloc::ResourceNames::Config resources;
  std::string machine;  // kind of machine; empty: what the machine says of itself
  StrategyKind strategy = StrategyKind::kEnv;
  LibraryPlace driver_libraries = LibraryPlace::kLinkerDirectories;  // with strategy devices or cdi
  gpu::XidRules xids;
  bool node_labels = true;
  bool legacy_annotations = true;
  bool node_condition = true;
  bool unhealthy_config_map = true;  // for old extenders
  std::string unhealthy_config_map_namespace = "kube-system";

  MemoryRules memory;                              // for containers that use more than they asked for
  std::chrono::milliseconds sample_every{10'000};  // who uses what

  Paths paths;
};

using Environment = std::function<std::optional<std::string>(const char*)>;

Status apply_environment(const Environment& environment, Config& config);

// Reads `yaml` over what is there. Errors begin with "name:line:". Unknown keys are errors: a
// typing mistake must not silently mean the default.
Status apply_yaml(std::string_view yaml, const std::string& name, Config& config);

// What must hold whatever it came from; fills in what was left open.
Status complete(Config& config);

}  // namespace tessera::agent
