// objects/node_facts.h
//
// A node as the command line shows it: the fields that the ledger needs, and those that only users
// need.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/names.h"
#include "alloc/node.h"
#include "base/result.h"
#include "kube/object_sink.h"
#include "objects/pod_details.h"

namespace tessera::objects {

// The type of the condition in which the agent reports the health of the node's GPUs and driver.
inline constexpr std::string_view kGpusHealthy = "GPUsHealthy";

struct NodeFacts {
  alloc::NodeSpec spec;
  std::string address{};  // the first InternalIP
  bool ready = false;
  bool cordoned = false;
  // status.allocatable of gpu-mem and gpu-count. The `inspect` commands of the original systems
  // show them.
  std::int64_t allocatable_units = 0;
  std::int64_t allocatable_count = 0;
  std::int64_t allocatable_whole = 0;
  // status.capacity and status.allocatable of all resources whose name has a domain, for example
  // nvidia.com/gpu.
  struct Amount {
    std::int64_t capacity = 0;
    std::int64_t allocatable = 0;
  };
  std::map<std::string, Amount, std::less<>> extended{};
  // The condition kGpusHealthy; all empty if the node has none.
  std::string gpus_healthy{};  // "True" or "False"
  std::string gpus_reason{};   // "DriverHangs", ...
  std::string gpus_message{};
  // Other resources that look like GPUs (looks_like_gpu) and whose amount in status.capacity is above 0.
  std::vector<std::string> other_gpu_resources{};
  std::map<std::string, std::string, std::less<>> labels{};
  std::vector<objects::Taint> taints{};
};

// Replaces `node` and `meta` with what the object says. Returns kInvalid if a field has the wrong
// type or a quantity is malformed. `meta` then has the fields that were read before the error.
Status decode_node_facts(kube::ObjectJson& object, const alloc::ResourceNames& names, kube::ObjectMeta& meta,
                         NodeFacts& node);

}  // namespace tessera::objects
