// tests/cli/saved_cluster.h
//
// Builds a cluster object by object and saves it in the two files of --file.
//
//   SavedCluster cluster;
//   cluster.plain_node("gpu-a", {.units = 32, .gpus = 2});
//   cluster.pod("ml", "train", "gpu-a", {.units = 8, .annotations = record(share_record(...))});
//   read_cluster({.file = cluster.write()}, {});
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "../base/temporary_directory.h"
#include "alloc/inventory.h"
#include "alloc/names.h"

namespace tessera::cli {

using Texts = std::map<std::string, std::string>;

// Returns the annotations of a pod with this record.
inline Texts record(const std::string& text) {
  return {{"tessera.io/allocation", text}};
}

struct PlainNode {
  std::int64_t units = 0;
  std::int64_t gpus = 0;
  Texts labels{};
  Texts annotations{};
  std::int64_t whole = 0;            // aliyun.com/gpu
  std::int64_t unhealthy_units = 0;  // part of `units` that is not allocatable
  Texts other_capacity{};            // by resource
};

struct SavedPod {
  std::int64_t units = 0;
  std::int64_t whole = 0;
  Texts annotations{};
  std::string phase = "Running";
  std::string scheduler{};
  std::string created = "2026-01-01T00:00:00Z";
  bool scheduling_attempted = false;  // a scheduler has set the condition PodScheduled
  std::vector<std::string> gates{};
  Texts node_selector{};
  bool deleting = false;
  std::string waiting_message{};  // of kubelet, about the container
  bool zero_limits = false;       // write limits of 0 instead of no limits
  std::string reason{};           // status.reason and status.message
  std::string message{};
  std::string owner_kind{};  // of the controller
  std::string owner_name{};
  Texts labels{};
  // The writer of spec.nodeName, as managedFields show it: "client", "binding"; "" for no managedFields.
  std::string node_set_by{};
  Texts other_limits{};  // by resource
};

// A pod of Tessera's own scheduler, or of its extender behind a Service.
struct SavedPlacer {
  std::string component = "scheduler";
  std::string scheduler_name = "tessera-scheduler";
  bool ready = true;
  bool leads = false;
  Texts annotations{};  // added to those of the chart, or replacing them
  std::string namespace_name = "tessera-system";
};

class SavedCluster {
 public:
  SavedCluster() = default;
  // A cluster with other resource names, which its placers state in their annotations.
  explicit SavedCluster(const alloc::ResourceNames::Config& resources)
      : resources_(resources), names_(resources) {}

  void plain_node(const std::string& name, const PlainNode& node);
  // Adds a node with Tessera's agent. The memory of unhealthy GPUs is capacity, but not
  // allocatable.
  void node(const std::string& name, const alloc::Inventory& inventory, const Texts& labels = {});
  void node_with_inventory_text(const std::string& name, const std::string& inventory, std::int64_t units,
                                std::int64_t gpus);
  void pod(const std::string& namespace_name, const std::string& name, const std::string& node,
           const SavedPod& pod);
  void placer(const std::string& name, const SavedPlacer& placer = {});
  // Adds a pod of tessera-agent.
  void agent(const std::string& node, bool ready);
  // Change the last node: kubelet offers none of its GPU resources; the agent has set the condition
  // GPUsHealthy to False; the node has this annotation.
  void offers_nothing();
  void unhealthy(const std::string& reason, const std::string& message);
  void annotate(const std::string& key, const std::string& value);
  // Adds a taint to the last node.
  void taint(const std::string& key, const std::string& value, const std::string& effect);

  // Writes nodes.json and pods.json, replacing those of an earlier call. Returns the directory.
  std::string write() const;
  [[nodiscard]] std::string nodes_json() const;
  [[nodiscard]] std::string pods_json() const;

 private:
  void add_node(const std::string& name, const PlainNode& node);

  TemporaryDirectory directory_;
  alloc::ResourceNames::Config resources_{};
  alloc::ResourceNames names_;
  boost::json::array nodes_;
  boost::json::array pods_;
};

// Returns an inventory of `gpus` equal GPUs named GPU-<node>-<index>, all linked by single NVLinks.
alloc::Inventory inventory_of(const std::string& node, unsigned gpus, std::uint32_t memory_mib,
                              const std::string& model = "Tesla V100-SXM2-32GB");
// Returns a record {"v":1,...} of one container "main" with a share of each of these GPUs.
std::string share_record(const std::map<std::string, std::uint32_t>& units_by_uuid);
std::string whole_record(const std::vector<std::string>& uuids);

// Adds a V100 machine and a machine with two models and an unhealthy GPU, and pods with shares,
// whole GPUs and shares of several GPUs.
void fill_tessera_cluster(SavedCluster& cluster);

}  // namespace tessera::cli
