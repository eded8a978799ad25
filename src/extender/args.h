// extender/args.h
//
// What kube-scheduler sends: the bodies of filter, prioritize, preempt and bind.
//
// Go writes the keys as ExtenderArgs names them and reads them in any case; so does this. Bodies are read in
// place, and views into them are valid as long as the body is and until the next call. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/names.h"
#include "alloc/pod.h"
#include "base/result.h"
#include "json/padded_buffer.h"

namespace tessera::extender {

// Of filter and prioritize.
struct NodeArgs {
  alloc::PodSpec pod;
  // nodeCacheCapable: the nodes come as names, else as whole objects.
  bool names_only = true;
  std::vector<std::string_view> names;
  // The same nodes as they stand in the body (a quoted name, or a Node object), so that an answer can copy
  // them. Neighbours of the list are neighbours in the body.
  std::vector<std::string_view> raw;
};

struct BindArgs {
  std::string pod;
  std::string pod_namespace;
  std::string uid;
  std::string node;
};

struct Victim {
  std::string uid;
  // Only where whole pods are sent; else the books have it.
  bool has_priority = false;
  std::int64_t priority = 0;
};

struct NodeVictims {
  std::string node;
  std::vector<Victim> pods;  // may be empty
  std::int64_t pdb_violations = 0;
};

struct PreemptArgs {
  alloc::PodSpec pod;
  std::vector<NodeVictims> nodes;
};

class ArgsReader {
 public:
  explicit ArgsReader(const alloc::ResourceNames& names);
  ~ArgsReader();
  ArgsReader(const ArgsReader&) = delete;
  ArgsReader& operator=(const ArgsReader&) = delete;

  // kInvalid when the body is not JSON, lacks a field or holds one of another type.
  Result<const NodeArgs*> node_args(json::PaddedView body);
  Result<BindArgs> bind_args(json::PaddedView body);
  Result<PreemptArgs> preempt_args(json::PaddedView body);

  // A pod alone, as GET brings it.
  Status pod(json::PaddedView body, alloc::PodSpec& into);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
  alloc::ResourceNames names_;
  NodeArgs node_args_;
};

}  // namespace tessera::extender
