// extender/scheduler_policy.h
//
// Converts the scheduler Policy of old clusters into a KubeSchedulerConfiguration. kube-scheduler up
// to 1.22 read the Policy with --policy-config-file; the installers of the original systems wrote
// one:
//
//   {"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "PodFitsResources"}],
//    "priorities": [{"name": "LeastRequestedPriority", "weight": 1}],
//    "extenders": [{"urlPrefix": "http://127.0.0.1:32766/gpushare-scheduler", "filterVerb": "filter",
//                   "bindVerb": "bind", "enableHttps": false, "nodeCacheCapable": true,
//                   "managedResources": [{"name": "aliyun.com/gpu-mem"}], "ignorable": false}]}
//
// Predicates became the filters of plugins, and priorities became their scores. If a Policy lists
// predicates or priorities, only the listed ones are used, so the converted profile disables all
// other plugins. Plugins that are newer than the Policy stay enabled. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace YAML {
class Node;
}

namespace tessera::extender {

// Returns whether `root` is a Policy.
bool is_scheduler_policy(const YAML::Node& root);

// Returns the KubeSchedulerConfiguration of a Policy, with all of its extenders. Adds a remark with
// the name of each setting that has changed or has no equivalent. `name` is the file name for
// messages. Returns kInvalid, with the position, for a Policy that kube-scheduler would have rejected.
Result<YAML::Node> convert_scheduler_policy(const YAML::Node& policy, const std::string& name,
                                            std::vector<std::string>& remarks);

}  // namespace tessera::extender
