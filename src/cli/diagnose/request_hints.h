// cli/diagnose/request_hints.h
//
// Hints of `tessera why` about names in a pod that are probably misspelt or not what the user meant:
// resources, annotations, GPU models and UUIDs, whole and shared GPUs in one container. Each hint
// names what exists. Pure.
#pragma once

#include <string>
#include <vector>

#include "alloc/ledger.h"
#include "alloc/pod.h"
#include "cli/cluster/cluster.h"
#include "objects/pod_details.h"

namespace tessera::cli {

// Returns the hints for `pod`, whose details are `details`. `ledger` is that of the cluster.
std::vector<std::string> request_hints(const Cluster& cluster, const alloc::PodSpec& pod,
                                       const objects::PodDetails& details, const alloc::Ledger& ledger);

// Returns only the hints about resources that neither Tessera nor another plugin serves.
std::vector<std::string> resource_hints(const Cluster& cluster, const objects::PodDetails& details);

// Returns the same hints, but shorter: `"nvidia.com/gpu" is offered by no node: did you mean aliyun.com/gpu?`
std::vector<std::string> unserved_resources(const Cluster& cluster, const objects::PodDetails& details);

// Returns whether the pod requests no GPUs of Tessera and waits for an unserved resource, so that no
// scheduler can place it. Such pods are read only with ClusterQuery::other_gpu_pods.
bool waits_for_unserved(const Cluster& cluster, const alloc::PodSpec& pod,
                        const objects::PodDetails& details);

}  // namespace tessera::cli
