// extender/scheduler_config.h
//
// Makes the KubeSchedulerConfiguration that attaches a kube-scheduler to this extender: a complete
// one, or an existing one with the extender added. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "extender/config.h"

namespace tessera::extender {

struct SchedulerConfig {
  std::string yaml;
  // Notes for the user about settings of an existing configuration that were not changed.
  std::vector<std::string> remarks;
};

// Returns the URL of the extender for the scheduler: the pod's loopback address for a sidecar, the
// NodePort of the original for a Service.
std::string default_url(const Config& config);

// Normalizes a URL that a user wrote, with or without the path prefix and a slash at the end.
// Returns kInvalid if it is not a URL.
Result<std::string> extender_url(std::string_view text);

// Returns a complete configuration for config.attach. `url` has no path prefix:
// "http://127.0.0.1:39999". `kubeconfig` is the file with which kube-scheduler reaches the API
// server; empty for the service account of its pod. By default that is the file of kubeadm for a
// Service and the service account for a sidecar.
std::string scheduler_config(const Config& config, const std::string& url,
                             const std::optional<std::string>& kubeconfig = std::nullopt);

// Adds our extender to `existing`, or replaces an earlier one of ours. Everything else stays as it
// is, except that comments are lost. Returns kInvalid if `existing` is not such a configuration,
// and kConflict if another extender already binds pods or manages one of our resources, because
// kube-scheduler allows only one. `kubeconfig` is used if `existing` names none; if both are
// missing, a remark says so.
Result<SchedulerConfig> merge_scheduler_config(const Config& config, const std::string& url,
                                               std::string_view existing, const std::string& name,
                                               const std::optional<std::string>& kubeconfig = std::nullopt);

}  // namespace tessera::extender
