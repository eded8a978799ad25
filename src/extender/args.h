// extender/args.h
//
// Parses the bodies that kube-scheduler sends to filter, prioritize, preempt and bind.
//
// Accepts keys in any letter case, as Go's JSON decoder does. Parses a body in place: views in the
// result are valid until the body is destroyed or the reader is called again. Not thread-safe.
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
  // Total size of the pod's annotation keys and values, in bytes. If the body is small, the
  // annotations cannot reach the limit of Kubernetes (256 KiB). They are then not measured, and the
  // value is 0.
  std::size_t annotation_bytes = 0;
  // True if kube-scheduler sent node names (nodeCacheCapable: true), false if it sent Node objects.
  bool names_only = true;
  // The quoted names of the nodes, "a","b", followed by readable padding. Responses copy parts of
  // this text.
  json::PaddedView text;
  // The ID of each name in `text`, in the same order.
  const NodeList* nodes = nullptr;
  // The JSON of each node. Empty if names_only.
  std::vector<std::string_view> objects;

  [[nodiscard]] std::size_t size() const { return nodes->size(); }
  // Returns the quoted names lo..hi-1, with the commas between them.
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
  // True if kube-scheduler sent whole pods, so that `priority` is set. If false, use
  // ClusterState::priority().
  bool has_priority = false;
  std::int64_t priority = 0;
};

// The pods that kube-scheduler proposes to evict from one node.
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

  // Parse the body of one call. Return kInvalid if the body is not JSON, lacks a field, or has a
  // field with the wrong type.
  //
  // kube-scheduler writes the node names at the end of the body. node_args() parses them separately
  // from the rest, because a JSON parser would touch each name several times.
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
  json::PaddedBuffer rest_;  // the body without the node names
  std::vector<std::string_view> node_names_;
  json::PaddedBuffer written_;  // node_names_ as quoted text, if the body has no such text
};

}  // namespace tessera::extender
