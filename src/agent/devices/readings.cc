#include "agent/devices/readings.h"

namespace tessera::agent {

void Readings::add_answers(const Allocator::Counts& answers, const AskerSearch::Counts& searches) {
  const auto containers = [this](const char* result, std::uint64_t count) {
    counter("tessera_agent_containers_total", "Containers by what Allocate gave them", count,
            {{"result", result}});
  };
  containers("allocated", answers.given);
  for (const auto& [result, count] : answers.nothing) {
    containers(result.c_str(), count);
  }
  containers("unknown_pod", answers.unknown_pod);
  counter("tessera_agent_mismatched_device_ids_total",
          "Containers whose IDs kubelet took of other devices than decided", answers.other_ids);
  counter("tessera_agent_starts_total", "Starts of containers by whether they had to wait", answers.started,
          {{"result", "started"}});
  counter("tessera_agent_starts_total", "Starts of containers by whether they had to wait", answers.held,
          {{"result", "blocked"}});
  const auto askers = [this](const char* result, std::uint64_t count) {
    counter("tessera_agent_container_lookups_total", "How it was known which pod kubelet asked for", count,
            {{"result", result}});
  };
  askers("confirmed", searches.confirmed);
  askers("guessed", searches.guessed);
  askers("unknown", searches.unknown);
  askers("fetched", searches.fetched);
}

void Readings::add_resources(const std::vector<Plugins::Resource>& resources) {
  for (const Plugins::Resource& resource : resources) {
    const Labels labels{{"resource", resource.name}};
    gauge("tessera_agent_devices", "Devices that kubelet was told of", static_cast<double>(resource.devices),
          labels);
    gauge("tessera_agent_devices_healthy", "Of these, those that pods can get",
          static_cast<double>(resource.healthy), labels);
    gauge("tessera_agent_registered", "1 when kubelet knows the resource and watches its devices",
          resource.status.registered ? 1 : 0, labels);
    counter("tessera_agent_registrations_total", "Registrations that kubelet accepted",
            resource.status.registrations, labels);
  }
}

void Readings::add_objects(const std::vector<std::pair<std::string, ObjectKeeper::State>>& objects) {
  for (const auto& [object, state] : objects) {
    const Labels labels{{"object", object}};
    gauge("tessera_agent_object_synced", "1 when the object in the API server is as it should be",
          state.settled ? 1 : 0, labels);
    counter("tessera_agent_object_writes_total", "Writes done", state.writes, labels);
    counter("tessera_agent_object_failures_total", "Reads and writes that failed", state.failures, labels);
  }
}

void Readings::add_events(const kube::EventAggregator::Counts& events) {
  daemon::Readings::add_events("tessera_agent_events_dropped_total", events);
}

void Readings::add_server(const http::ServerStats& stats) {
  daemon::Readings::add_server("tessera_agent_connections", stats);
}

}  // namespace tessera::agent
