// tests/cli/saved_cluster.h
//
// A cluster in two files, put together object by object.
//
//   SavedCluster cluster;
//   cluster.old_node("gpu-a", {.units = 32, .gpus = 2});
//   cluster.pod("ml", "train", "gpu-a", {.units = 8, .annotations = {{"ALIYUN_COM_GPU_MEM_IDX", "1"}}});
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

// The annotations of a pod with this record.
inline Texts record(const std::string& text) {
  return {{"tessera.io/allocation", text}};
}

struct OldNode {
  std::int64_t units = 0;
  std::int64_t gpus = 0;
  Texts labels{};
  Texts annotations{};
  std::int64_t whole = 0;      // aliyun.com/gpu
  std::int64_t ill_units = 0;  // of `units`, those of GPUs that are not well: not allocatable
};

struct SavedPod {
  std::int64_t units = 0;
  std::int64_t whole = 0;
  Texts annotations{};
  std::string phase = "Running";
  std::string scheduler{};
  std::string created = "2026-01-01T00:00:00Z";
  bool looked_at = false;  // by a scheduler
  std::vector<std::string> gates{};
  Texts node_selector{};
  bool deleting = false;
  std::string waits_because{};  // kubelet's words about its container
  bool zero_limits = false;     // writes 0 where nothing is asked for
};

// A pod of Tessera's own scheduler, or of its extender behind a Service.
struct SavedPlacer {
  std::string component = "scheduler";
  std::string scheduler_name = "tessera-scheduler";
  bool ready = true;
  bool leads = false;
  Texts annotations{};  // besides those that the chart gives every one, or instead
};

class SavedCluster {
 public:
  SavedCluster() = default;
  // One that calls its resources otherwise, which its placers tell.
  explicit SavedCluster(const alloc::ResourceNames::Config& resources)
      : resources_(resources), names_(resources) {}

  void old_node(const std::string& name, const OldNode& node);
  // With Tessera's agent. Memory of ill GPUs is capacity, and kubelet does not give it out.
  void node(const std::string& name, const alloc::Inventory& inventory, const Texts& labels = {});
  void node_with_inventory_text(const std::string& name, const std::string& inventory, std::int64_t units,
                                std::int64_t gpus);
  void pod(const std::string& namespace_name, const std::string& name, const std::string& node,
           const SavedPod& pod);
  void placer(const std::string& name, const SavedPlacer& placer = {});
  // Of the node that came last.
  void taint(const std::string& key, const std::string& value, const std::string& effect);

  // Writes nodes.json and pods.json, anew at every call; gives the directory.
  std::string write() const;
  [[nodiscard]] std::string nodes_json() const;
  [[nodiscard]] std::string pods_json() const;

 private:
  void add_node(const std::string& name, const OldNode& node);

  TemporaryDirectory directory_;
  alloc::ResourceNames::Config resources_{};
  alloc::ResourceNames names_;
  boost::json::array nodes_;
  boost::json::array pods_;
};

// An inventory of `gpus` equal GPUs named GPU-<node>-<index>, all connected by single NVLinks.
alloc::Inventory inventory_of(const std::string& node, unsigned gpus, std::uint32_t memory_mib,
                              const std::string& model = "Tesla V100-SXM2-32GB");
// {"v":1,...}: one container "main" with a share of each of these GPUs.
std::string share_record(const std::map<std::string, std::uint32_t>& units_by_uuid);
std::string whole_record(const std::vector<std::string>& uuids);

// A V100 box and a box with two models, one of its GPUs ill; shares, whole GPUs, pods over several GPUs.
void fill_tessera_cluster(SavedCluster& cluster);

}  // namespace tessera::cli
