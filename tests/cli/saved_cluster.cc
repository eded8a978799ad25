#include "saved_cluster.h"

#include <fmt/core.h>

#include <stdexcept>

#include "alloc/names.h"
#include "alloc/record.h"
#include "base/file.h"

namespace tessera::cli {

namespace json = boost::json;

namespace {

json::object texts(const Texts& map) {
  json::object object;
  for (const auto& [key, value] : map) {
    object[key] = value;
  }
  return object;
}

std::string list(const json::array& items, const char* kind) {
  return json::serialize(
      json::object{{"kind", kind}, {"metadata", json::object{{"resourceVersion", "7"}}}, {"items", items}});
}

}  // namespace

void SavedCluster::add_node(const std::string& name, const PlainNode& node) {
  json::object amounts{{"cpu", "32"}, {"memory", "128Gi"}};
  if (node.units > 0) {
    amounts[names_.memory()] = std::to_string(node.units);
  }
  if (node.gpus > 0) {
    amounts[names_.count()] = std::to_string(node.gpus);
  }
  if (node.whole > 0) {
    amounts[names_.whole()] = std::to_string(node.whole);
  }
  for (const auto& [resource, amount] : node.other_capacity) {
    amounts[resource] = amount;
  }
  json::object allocatable = amounts;
  if (node.unhealthy_units > 0) {
    allocatable[names_.memory()] = std::to_string(node.units - node.unhealthy_units);
  }
  nodes_.push_back(json::object{
      {"metadata", json::object{{"name", name},
                                {"uid", "node-" + name},
                                {"resourceVersion", "5"},
                                {"labels", texts(node.labels)},
                                {"annotations", texts(node.annotations)}}},
      {"status",
       json::object{{"capacity", amounts},
                    {"allocatable", allocatable},
                    {"addresses", json::array{json::object{{"type", "InternalIP"}, {"address", "10.0.0.1"}}}},
                    {"conditions", json::array{json::object{{"type", "Ready"}, {"status", "True"}}}}}}});
}

void SavedCluster::plain_node(const std::string& name, const PlainNode& node) {
  add_node(name, node);
}

void SavedCluster::node(const std::string& name, const alloc::Inventory& inventory, const Texts& labels) {
  std::int64_t units = 0;
  std::int64_t unhealthy = 0;
  for (std::size_t i = 0; i < inventory.gpus.size(); ++i) {
    units += inventory.units(i);
    unhealthy += inventory.gpus[i].healthy() ? 0 : inventory.units(i);
  }
  const auto gpus = static_cast<std::int64_t>(inventory.gpus.size());
  add_node(name, {.units = units,
                  .gpus = gpus,
                  .labels = labels,
                  .annotations = {{std::string(alloc::key::kInventory), inventory.json()}},
                  .whole = gpus,
                  .unhealthy_units = unhealthy});
}

void SavedCluster::node_with_inventory_text(const std::string& name, const std::string& inventory,
                                            std::int64_t units, std::int64_t gpus) {
  add_node(name, {.units = units,
                  .gpus = gpus,
                  .labels = {},
                  .annotations = {{std::string(alloc::key::kInventory), inventory}},
                  .whole = gpus});
}

void SavedCluster::pod(const std::string& namespace_name, const std::string& name, const std::string& node,
                       const SavedPod& pod) {
  json::object limits;
  if (pod.units != 0 || pod.zero_limits) {
    limits[names_.memory()] = std::to_string(pod.units);
  }
  if (pod.whole > 0 || pod.zero_limits) {
    limits[names_.whole()] = std::to_string(pod.whole);
  }
  for (const auto& [resource, amount] : pod.other_limits) {
    limits[resource] = amount;
  }
  json::object spec{{"containers", json::array{json::object{
                                       {"name", "main"}, {"resources", json::object{{"limits", limits}}}}}}};
  if (!node.empty()) {
    spec["nodeName"] = node;
  }
  if (!pod.scheduler.empty()) {
    spec["schedulerName"] = pod.scheduler;
  }
  for (const std::string& gate : pod.gates) {
    if (!spec.contains("schedulingGates")) {
      spec["schedulingGates"] = json::array();
    }
    spec["schedulingGates"].as_array().push_back(json::object{{"name", gate}});
  }
  if (!pod.node_selector.empty()) {
    spec["nodeSelector"] = texts(pod.node_selector);
  }
  json::object metadata{{"name", name},
                        {"namespace", namespace_name},
                        {"uid", fmt::format("pod-{}-{}", namespace_name, name)},
                        {"resourceVersion", "6"},
                        {"creationTimestamp", pod.created},
                        {"annotations", texts(pod.annotations)}};
  if (pod.deleting) {
    metadata["deletionTimestamp"] = pod.created;
  }
  if (!pod.labels.empty()) {
    metadata["labels"] = texts(pod.labels);
  }
  if (!pod.owner_name.empty()) {
    metadata["ownerReferences"] =
        json::array{json::object{{"kind", "Other"}, {"name", "not-the-controller"}},
                    json::object{{"kind", pod.owner_kind}, {"name", pod.owner_name}, {"controller", true}}};
  }
  if (!pod.node_set_by.empty()) {
    json::object fields{{"f:containers", json::object()}};
    if (pod.node_set_by == "client") {
      fields["f:nodeName"] = json::object();
    }
    metadata["managedFields"] = json::array{
        json::object{{"manager", "kubectl"}, {"fieldsV1", json::object{{"f:spec", std::move(fields)}}}}};
  }
  json::object status{{"phase", pod.phase}};
  if (!pod.reason.empty()) {
    status["reason"] = pod.reason;
    status["message"] = pod.message;
  }
  if (pod.scheduling_attempted) {
    status["conditions"] = json::array{json::object{{"type", "PodScheduled"},
                                                    {"status", "False"},
                                                    {"reason", "Unschedulable"},
                                                    {"message", "0/2 nodes"}}};
  }
  if (!pod.waiting_message.empty()) {
    status["containerStatuses"] = json::array{
        json::object{{"name", "main"},
                     {"state", json::object{{"waiting", json::object{{"reason", "CreateContainerConfigError"},
                                                                     {"message", pod.waiting_message}}}}}}};
  }
  pods_.push_back(json::object{
      {"metadata", std::move(metadata)}, {"spec", std::move(spec)}, {"status", std::move(status)}});
}

void SavedCluster::placer(const std::string& name, const SavedPlacer& placer) {
  json::object labels{{"app.kubernetes.io/name", "tessera"},
                      {"app.kubernetes.io/component", placer.component}};
  if (placer.leads) {
    labels[alloc::key::kLeader] = "true";
  }
  json::object annotations{{alloc::key::kResourcePrefix, resources_.prefix},
                           {alloc::key::kResourceWhole, names_.whole()}};
  for (const auto& [key, value] : placer.annotations) {
    annotations[key] = value;
  }
  if (placer.component == "scheduler") {
    annotations[alloc::key::kSchedulerName] = placer.scheduler_name;
  }
  pods_.push_back(json::object{
      {"metadata", json::object{{"name", name},
                                {"namespace", placer.namespace_name},
                                {"uid", "placer-" + name},
                                {"resourceVersion", "6"},
                                {"labels", std::move(labels)},
                                {"annotations", std::move(annotations)}}},
      {"spec", json::object{{"nodeName", "master"},
                            {"schedulerName", "default-scheduler"},
                            {"containers", json::array{json::object{{"name", "extender"}}}}}},
      {"status",
       json::object{{"phase", "Running"},
                    {"conditions", json::array{json::object{
                                       {"type", "Ready"}, {"status", placer.ready ? "True" : "False"}}}}}}});
}

void SavedCluster::agent(const std::string& node, bool ready) {
  pods_.push_back(json::object{
      {"metadata", json::object{{"name", "tessera-agent-" + node},
                                {"namespace", "tessera-system"},
                                {"uid", "agent-" + node},
                                {"resourceVersion", "6"},
                                {"labels", json::object{{"app.kubernetes.io/name", "tessera"},
                                                        {"app.kubernetes.io/component", "agent"}}}}},
      {"spec",
       json::object{{"nodeName", node}, {"containers", json::array{json::object{{"name", "agent"}}}}}},
      {"status",
       json::object{{"phase", "Running"},
                    {"conditions",
                     json::array{json::object{{"type", "Ready"}, {"status", ready ? "True" : "False"}}}}}}});
}

void SavedCluster::offers_nothing() {
  json::object& status = nodes_.back().at("status").as_object();
  status["allocatable"] = json::object{{"cpu", "32"},
                                       {"memory", "128Gi"},
                                       {names_.memory(), "0"},
                                       {names_.count(), "0"},
                                       {names_.whole(), "0"}};
}

void SavedCluster::unhealthy(const std::string& reason, const std::string& message) {
  nodes_.back()
      .at("status")
      .at("conditions")
      .as_array()
      .push_back(json::object{
          {"type", "GPUsHealthy"}, {"status", "False"}, {"reason", reason}, {"message", message}});
}

void SavedCluster::annotate(const std::string& key, const std::string& value) {
  nodes_.back().at("metadata").at("annotations").as_object()[key] = value;
}

void SavedCluster::taint(const std::string& key, const std::string& value, const std::string& effect) {
  json::object& node = nodes_.back().as_object();
  node["spec"] =
      json::object{{"taints", json::array{json::object{{"key", key}, {"value", value}, {"effect", effect}}}}};
}

std::string SavedCluster::nodes_json() const {
  return list(nodes_, "NodeList");
}

std::string SavedCluster::pods_json() const {
  return list(pods_, "PodList");
}

std::string SavedCluster::write() const {
  if (!write_file(directory_ / "nodes.json", nodes_json()) ||
      !write_file(directory_ / "pods.json", pods_json())) {
    throw std::runtime_error("cannot write " + directory_.path());
  }
  return directory_.path();
}

alloc::Inventory inventory_of(const std::string& node, unsigned gpus, std::uint32_t memory_mib,
                              const std::string& model) {
  alloc::Inventory inventory;
  inventory.driver = "550.54.15";
  inventory.machine = "test-box";
  inventory.topology = topology::Topology(gpus);
  for (unsigned i = 0; i < gpus; ++i) {
    alloc::Gpu gpu;
    gpu.uuid = fmt::format("GPU-{}-{}", node, i);
    gpu.index = i;
    gpu.minor = static_cast<std::int32_t>(i);
    gpu.model = model;
    gpu.memory_mib = memory_mib;
    inventory.gpus.push_back(gpu);
    for (unsigned j = 0; j < i; ++j) {
      inventory.topology.set_link(i, j, {.path = topology::PciePath::kPix, .nvlinks = 1, .generation = 2});
    }
  }
  return inventory;
}

std::string share_record(const std::map<std::string, std::uint32_t>& units_by_uuid) {
  alloc::Record record;
  record.containers.push_back({.container = "main", .shares = {}});
  for (const auto& [uuid, units] : units_by_uuid) {
    record.containers.back().shares.push_back({.gpu = uuid, .units = units});
  }
  return record.json();
}

std::string whole_record(const std::vector<std::string>& uuids) {
  alloc::Record record;
  record.containers.push_back({.container = "main", .shares = {}});
  for (const std::string& uuid : uuids) {
    record.containers.back().shares.push_back({.gpu = uuid, .whole = true});
  }
  return record.json();
}

namespace {

Texts by_record(const std::string& text) {
  return {{"tessera.io/allocation", text}};
}

}  // namespace

void fill_tessera_cluster(SavedCluster& cluster) {
  cluster.node("gpu-a", inventory_of("a", 4, 32768), {{"zone", "east"}});
  alloc::Inventory mixed = inventory_of("b", 2, 16384, "Tesla T4");
  mixed.gpus[1].memory_mib = 81920;
  mixed.gpus[1].model = "NVIDIA A100-SXM4-80GB";
  mixed.gpus[0].unhealthy = "XID 79";
  cluster.node("gpu-b", mixed, {{"zone", "west"}});
  cluster.pod("ml", "train", "gpu-a",
              {.whole = 2, .annotations = by_record(whole_record({"GPU-a-0", "GPU-a-3"}))});
  cluster.pod("ml", "infer", "gpu-a", {.units = 8, .annotations = by_record(share_record({{"GPU-a-1", 8}}))});
  cluster.pod("web", "split", "gpu-a",
              {.units = 10, .annotations = by_record(share_record({{"GPU-a-1", 5}, {"GPU-a-2", 5}}))});
  cluster.pod("web", "big", "gpu-b",
              {.units = 70, .annotations = by_record(share_record({{"GPU-b-1", 70}}))});
  cluster.pod("web", "waits", "", {.units = 4, .phase = "Pending"});
  cluster.pod("web", "done", "gpu-b", {.units = 4, .phase = "Succeeded"});
}

}  // namespace tessera::cli
