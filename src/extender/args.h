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
#include "extender/node_list.h"
#include "json/padded_buffer.h"

namespace tessera::extender {

// Of filter and prioritize.
struct NodeArgs {
  alloc::PodSpec pod;
  // Names and texts of all annotations of the pod; 0 where the whole body is smaller than they may be.
  std::size_t annotation_bytes = 0;
  // nodeCacheCapable: the nodes come as names, else as whole objects.
  bool names_only = true;
  // The names as JSON has them, "a","b", so that an answer can copy them, with readable bytes behind; and
  // who they are.
  json::PaddedView text;
  const NodeList* nodes = nullptr;
  // Of each node the text of its object, where there are objects.
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
  // Only where whole pods are sent; else the ledger has it.
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
  // Refers to the index, which must live longer.
  ArgsReader(const alloc::ResourceNames& names, const NodeIndex& index);
  ~ArgsReader();
  ArgsReader(const ArgsReader&) = delete;
  ArgsReader& operator=(const ArgsReader&) = delete;

  // kInvalid when the body is not JSON, lacks a field or holds one of another type.
  //
  // Names that stand at the end of the body, where kube-scheduler writes them, are read apart from the rest:
  // a JSON parser would touch each of them several times.
  Result<const NodeArgs*> node_args(json::PaddedView body);
  Result<BindArgs> bind_args(json::PaddedView body);
  Result<PreemptArgs> preempt_args(json::PaddedView body);

  // A pod alone, as GET brings it.
  Status pod(json::PaddedView body, alloc::PodSpec& into);

 private:
  struct Parser;

  bool read_names_apart(json::PaddedView body);
  Status read_fields(json::PaddedView body, bool& has_pod);

  std::unique_ptr<Parser> parser_;
  alloc::ResourceNames names_;
  NodeLists lists_;
  NodeArgs node_args_;
  json::PaddedBuffer rest_;  // a body without its names
  std::vector<std::string_view> node_names_;
  json::PaddedBuffer written_;  // the text of these, where it could not be taken as it came
};

}  // namespace tessera::extender
