// extender/scheduler_config.h
//
// The KubeSchedulerConfiguration that attaches a kube-scheduler to this extender: printed ready-made, or
// added to one that exists. Pure.
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
  // What the reader should know about an existing configuration that was left as it is.
  std::vector<std::string> remarks;
};

// Where the scheduler reaches the extender: the pod's own loopback for a sidecar, for a Service the NodePort
// of the original.
std::string default_url(const Config& config);

// The same from what a person wrote: with or without the prefix, with or without a slash at the end. kInvalid
// when it is no URL.
Result<std::string> extender_url(std::string_view text);

// A whole configuration for config.attach. `url` without the prefix: "http://127.0.0.1:39999". `kubeconfig`
// is how kube-scheduler reaches the API server, empty for the account of its pod; without a word that of
// kubeadm for a Service, and the account for a sidecar.
std::string scheduler_config(const Config& config, const std::string& url,
                             const std::optional<std::string>& kubeconfig = std::nullopt);

// Adds our extender to `existing`, or puts it in the place of an earlier one of ours. Everything else stays
// as it is, but comments are lost. kInvalid when it is not such a configuration, and kConflict when another
// extender binds pods already or manages one of our resources: kube-scheduler allows only one. `kubeconfig`
// is used where `existing` names none; without it that is a remark.
Result<SchedulerConfig> merge_scheduler_config(const Config& config, const std::string& url,
                                               std::string_view existing, const std::string& name,
                                               const std::optional<std::string>& kubeconfig = std::nullopt);

}  // namespace tessera::extender
