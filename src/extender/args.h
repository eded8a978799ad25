// extender/args.h
//
// Parses what kube-scheduler sends: the bodies of filter, prioritize, preempt and bind.
//
// Go writes the keys as ExtenderArgs names them and accepts them in any letter case; so does this.
// Bodies are read in place. Views into them are valid as long as the body, and until the next call.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/names.h"
#include "alloc/pod.h"
#include "base/result.h"
#include "extender/node_list.h"
#include "json/padded_buffer.h"

namespace tessera::extender {

// Arguments of filter and prioritize.
struct NodeArgs {
  alloc::PodSpec pod;
  // Size of all annotation keys and values of the pod. 0 if the body is too small for them to reach
  // the limit.
  std::size_t annotation_bytes = 0;
  // Whether kube-scheduler sent node names (nodeCacheCapable: true) or whole objects.
  bool names_only = true;
  // The names as in the JSON, "a","b", so that a response can copy them, followed by readable
  // padding; and their nodes.
  json::PaddedView text;
  const NodeList* nodes = nullptr;
  // The JSON of each node, if kube-scheduler sent objects.
  std::vector<std::string_view> objects;

  [[nodiscard]] std::size_t size() const { return nodes->size(); }
  [[nodiscard]] std::string_view quoted(std::size_t lo, std::size_t hi) const {
    return nodes->quoted(text.text(), lo, hi);
  }
};

struct BindArgs {
  std::string pod;
  std::string namespace_name;
  std::string uid;
  std::string node;
};

struct Victim {
  std::string uid;
  // Set only if kube-scheduler sent whole pods. Otherwise the ledger has the priority.
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
  // `index` must outlive this object.
  ArgsReader(const alloc::ResourceNames& names, const NodeIndex& index);
  ~ArgsReader();
  ArgsReader(const ArgsReader&) = delete;
  ArgsReader& operator=(const ArgsReader&) = delete;

  // Return kInvalid if the body is not JSON, lacks a field or has one of the wrong type.
  //
  // Names at the end of the body, where kube-scheduler writes them, are parsed separately from the
  // rest, because a JSON parser would touch each of them several times.
  Result<const NodeArgs*> node_args(json::PaddedView body);
  Result<BindArgs> bind_args(json::PaddedView body);
  Result<PreemptArgs> preempt_args(json::PaddedView body);

  // Parses a single Pod, as a GET returns it.
  Status pod(json::PaddedView body, alloc::PodSpec& into);

 private:
  struct Impl;

  bool read_names_at_end(json::PaddedView body);
  Status read_fields(json::PaddedView body, bool& has_pod);

  std::unique_ptr<Impl> impl_;
  alloc::ResourceNames names_;
  NodeLists lists_;
  NodeArgs node_args_;
  json::PaddedBuffer rest_;  // the body without its names
  std::vector<std::string_view> node_names_;
  json::PaddedBuffer written_;  // their text, if the body's own could not be used
};

}  // namespace tessera::extender
