// extender/scheduler_config.h
//
// Generates the KubeSchedulerConfiguration that attaches a kube-scheduler to this extender: a
// complete file, or an existing file with the extender added. Pure functions.
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

// Returns the URL at which kube-scheduler reaches the extender: the pod's loopback address for a
// sidecar, the NodePort of the original for a Service.
std::string default_url(const Config& config);

// Normalizes the URL of flag --url: removes the path prefix and the slash at the end, if any.
// Returns kInvalid if `text` is not a URL.
Result<std::string> extender_url(std::string_view text);

// Returns a complete configuration for config.attach. `url` has no path prefix:
// "http://127.0.0.1:39999". `kubeconfig` is the file with which kube-scheduler reaches the API
// server. If `kubeconfig` is "", kube-scheduler uses the service account of its pod. If it is
// unset, the result names kubeadm's file for a Service, and uses the service account for a sidecar.
std::string scheduler_config(const Config& config, const std::string& url,
                             const std::optional<std::string>& kubeconfig = std::nullopt);

// Adds our extender to `existing`. Replaces an entry of Tessera or of an original. The rest keeps
// its content, but comments are lost. `name` is the file name for messages. A scheduler Policy of an
// old cluster is converted first (scheduler_policy.h).
//
// Sets percentageOfNodesToScore and the kubeconfig if `existing` does not set them. If a kubeconfig
// is needed and neither the caller nor `existing` names one, adds a remark to the result.
//
// Returns kInvalid if `existing` is neither a KubeSchedulerConfiguration nor a Policy. Returns
// kConflict if another extender already binds pods or manages one of our resources, because
// kube-scheduler allows only one such extender.
Result<SchedulerConfig> merge_scheduler_config(const Config& config, const std::string& url,
                                               std::string_view existing, const std::string& name,
                                               const std::optional<std::string>& kubeconfig = std::nullopt);

}  // namespace tessera::extender
