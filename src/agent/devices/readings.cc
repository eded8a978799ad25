#include "agent/devices/readings.h"

namespace tessera::agent {

void Readings::add_admissions(const AdmissionCounts& admissions, const LookupCounts& lookups) {
  const auto containers = [this](const std::string& result, std::uint64_t count) {
    counter("tessera_agent_containers_total", "Containers, by result of Allocate", count,
            {{"result", result}});
  };
  containers("allocated", admissions.allocated);
  for (const auto& [result, count] : admissions.blocked) {
    containers(result, count);
  }
  containers("unknown_pod", admissions.unknown_pod);
  counter("tessera_agent_mismatched_device_ids_total",
          "Containers for which kubelet took IDs of devices that were not decided for them",
          admissions.mismatched_ids);
  const auto found = [this](const char* result, std::uint64_t count) {
    counter("tessera_agent_container_lookups_total",
            "Lookups of the container that a kubelet call is for, by result", count, {{"result", result}});
  };
  found("confirmed", lookups.confirmed);
  found("guessed", lookups.guessed);
  found("unknown", lookups.unknown);
  found("fetched", lookups.fetched);
}

void Readings::add_starts(const StartCounts& starts) {
  const auto add = [this](const char* result, std::uint64_t count) {
    counter("tessera_agent_starts_total", "PreStartContainer calls, by result (started or blocked)", count,
            {{"result", result}});
  };
  add("started", starts.started);
  add("blocked", starts.blocked);
}

void Readings::add_resources(const std::vector<Plugins::Resource>& resources) {
  for (const Plugins::Resource& resource : resources) {
    const Labels labels{{"resource", resource.name}};
    gauge("tessera_agent_devices", "Devices in the list that kubelet received",
          static_cast<double>(resource.devices), labels);
    gauge("tessera_agent_devices_healthy", "Healthy devices in that list",
          static_cast<double>(resource.healthy), labels);
    gauge("tessera_agent_registered", "1 if kubelet has registered the resource and watches its devices",
          resource.status.registered ? 1 : 0, labels);
    counter("tessera_agent_registrations_total", "Registrations that kubelet accepted",
            resource.status.registrations, labels);
  }
}

void Readings::add_objects(const std::vector<std::pair<std::string, ObjectReconciler::State>>& objects) {
  for (const auto& [object, state] : objects) {
    const Labels labels{{"object", object}};
    gauge("tessera_agent_object_synced", "1 if the API object is in the desired state", state.settled ? 1 : 0,
          labels);
    counter("tessera_agent_object_writes_total", "Successful writes of the API object", state.writes, labels);
    counter("tessera_agent_object_failures_total", "Failed reads and writes of the API object",
            state.failures, labels);
  }
}

}  // namespace tessera::agent
