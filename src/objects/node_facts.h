// objects/node_facts.h
//
// A node as the command line shows it: the fields that the ledger needs, and those that only users
// need.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "alloc/names.h"
#include "alloc/node.h"
#include "base/result.h"
#include "kube/object_sink.h"
#include "objects/pod_details.h"

namespace tessera::objects {

struct NodeFacts {
  alloc::NodeSpec spec;
  std::string address{};  // the first InternalIP
  bool ready = false;
  bool cordoned = false;
  // status.allocatable of gpu-mem and gpu-count. The `inspect` commands of the original systems
  // show them.
  std::int64_t allocatable_units = 0;
  std::int64_t allocatable_count = 0;
  std::int64_t whole_gpus = 0;  // status.capacity of the whole-GPU resource
  // Other resources in status.capacity that look like GPUs (looks_like_gpu), if there are any of them.
  std::vector<std::string> other_gpu_resources{};
  // Annotations of the original topology plugin.
  std::string gpu_topology{};
  std::string node_type{};
  std::map<std::string, std::string, std::less<>> labels{};
  std::vector<objects::Taint> taints{};
};

// Replaces `node` and `meta` with what the object says. Returns kInvalid if a field has the wrong
// type or a quantity is malformed. `meta` then has the fields that were read before the error.
Status decode_node_facts(kube::ObjectJson& object, const alloc::ResourceNames& names, kube::ObjectMeta& meta,
                         NodeFacts& node);

}  // namespace tessera::objects
