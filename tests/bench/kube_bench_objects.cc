#include "kube_bench_objects.h"

#include <fmt/core.h>

#include "alloc/inventory.h"
#include "json/escape.h"

namespace tessera::bench {

namespace {

std::string node_name(std::size_t i) {
  return fmt::format("gpu-node-{:05}.cluster.example.internal", i);
}

// Returns the inventory of eight GPUs that are linked in pairs.
std::string inventory(std::size_t i) {
  constexpr unsigned kGpus = 8;
  alloc::Inventory inventory;
  inventory.driver = "550.54.15";
  inventory.topology = topology::Topology(kGpus);
  for (unsigned gpu = 0; gpu < kGpus; ++gpu) {
    inventory.gpus.push_back({.uuid = fmt::format("GPU-{:08x}-0000-4000-8000-{:012x}", i, gpu),
                              .index = gpu,
                              .minor = static_cast<std::int32_t>(gpu),
                              .model = "NVIDIA A100-SXM4-80GB",
                              .memory_mib = 81'920,
                              .reserved_mib = 600,
                              .pci_bus_id = fmt::format("00000000:{:02x}:00.0", gpu + 1)});
  }
  for (unsigned gpu = 0; gpu < kGpus; gpu += 2) {
    inventory.topology.set_link(gpu, gpu + 1,
                                {.path = topology::PciePath::kPhb, .nvlinks = 4, .generation = 3});
  }
  std::string text;
  json::append_quoted(text, inventory.json());
  return text;
}

// Returns the fields that the server adds, such as managedFields.
std::string server_fields(std::size_t number, std::size_t version, std::size_t padding) {
  std::string fields;
  while (fields.size() < padding) {
    fields += fmt::format(R"({}"f:key{}":{{}})", fields.empty() ? "" : ",", fields.size());
  }
  return fmt::format(
      R"("uid":"00000000-0000-4000-8000-{:012x}","resourceVersion":"{}","creationTimestamp":"2026-11-15T00:00:00Z",)"
      R"("managedFields":[{{"manager":"seed","fieldsV1":{{"f:metadata":{{"f:labels":{{{}}}}}}}}}],)",
      number, version, fields);
}

std::string node(std::size_t i, const std::string& from_server, std::size_t note_bytes) {
  std::string images;
  for (int k = 0; k < 30; ++k) {
    images += fmt::format(
        R"({}{{"names":["registry.example.internal/team-{}/app-{}@sha256:{:064x}"],"sizeBytes":{}}})",
        k == 0 ? "" : ",", k % 7, k, k * 7919, 100'000'000 + k);
  }
  return fmt::format(
      R"({{"metadata":{{{}"name":"{}","labels":{{"app":"seed","rack":"r01"}},"annotations":{{"note":"{}","tessera.io/inventory":{}}}}},)"
      R"("spec":{{"podCIDR":"10.0.0.0/24"}},"status":{{"capacity":{{"cpu":"128","memory":"1056270412Ki",)"
      R"("aliyun.com/gpu-mem":"640","aliyun.com/gpu-count":"8"}},"allocatable":{{"cpu":"127610m","memory":"1030455372Ki"}},)"
      R"("conditions":[{{"type":"Ready","status":"True","reason":"KubeletReady","message":"kubelet is posting ready status"}}],)"
      R"("images":[{}]}}}})",
      from_server, node_name(i), std::string(note_bytes, 'n'), inventory(i), images);
}

std::string pod(std::size_t i, const std::string& from_server, std::size_t note_bytes,
                const std::string& status) {
  return fmt::format(
      R"({{"metadata":{{{}"name":"seed-{:06}","namespace":"default","labels":{{"app":"seed","rack":"r01"}},)"
      R"("annotations":{{"ALIYUN_COM_GPU_MEM_IDX":"3","ALIYUN_COM_GPU_MEM_POD":"4","note":"{}"}}}},)"
      R"("spec":{{"nodeName":"{}","automountServiceAccountToken":false,"containers":[{{"name":"main","image":"a/b:1",)"
      R"("command":["python3","train.py"],"env":[{{"name":"E1","value":"v"}},{{"name":"E2","value":"v"}}],)"
      R"("resources":{{"limits":{{"aliyun.com/gpu-mem":"4","cpu":"1","memory":"2Gi"}},"requests":{{"aliyun.com/gpu-mem":"4","cpu":"1","memory":"2Gi"}}}}}}],)"
      R"("tolerations":[{{"operator":"Exists"}}],"schedulerName":"x"}},"status":{{{}}}}})",
      from_server, i, std::string(note_bytes, 'n'), node_name(i % kNodes), status);
}

}  // namespace

std::string node_json(std::size_t i, std::size_t version) {
  return node(i, server_fields(i, version, 2000), 1);
}

std::string pod_json(std::size_t i, std::size_t version) {
  return pod(
      i, server_fields(i, version, 1500), 1,
      R"("phase":"Running","podIP":"10.1.2.3","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-11-15T00:00:00Z"}],)"
      R"("containerStatuses":[{"name":"main","ready":true,"image":"a/b:1","state":{"running":{"startedAt":"2026-11-15T00:00:01Z"}}}])");
}

std::string node_to_create(std::size_t i) {
  return R"({"apiVersion":"v1","kind":"Node",)" + node(i, "", 1280).substr(1);
}

std::string pod_to_create(std::size_t i) {
  return R"({"apiVersion":"v1","kind":"Pod",)" + pod(i, "", 720, "").substr(1);
}

}  // namespace tessera::bench
