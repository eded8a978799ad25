#include "agent/devices/readings.h"

#include <algorithm>
#include <iterator>

namespace tessera::agent {

void Readings::gauge(std::string name, std::string help, double value, Labels labels) {
  all_.push_back({.name = std::move(name),
                  .help = std::move(help),
                  .kind = daemon::Reading::Kind::kGauge,
                  .labels = std::move(labels),
                  .value = value});
}

// Kinds count alike: what has the same name and labels is one counter.
void Readings::counter(std::string name, std::string help, std::uint64_t value, Labels labels) {
  const auto same = std::ranges::find_if(all_, [&](const daemon::Reading& one) {
    return one.kind == daemon::Reading::Kind::kCounter && one.name == name && one.labels == labels;
  });
  if (same != all_.end()) {
    same->value += static_cast<double>(value);
    return;
  }
  all_.push_back({.name = std::move(name),
                  .help = std::move(help),
                  .kind = daemon::Reading::Kind::kCounter,
                  .labels = std::move(labels),
                  .value = static_cast<double>(value)});
}

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
  counter("tessera_agent_mismatched_device_ids_total", "Containers whose IDs kubelet took of other devices than decided",
          answers.other_ids);
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
  counter("tessera_agent_events_dropped_total", "Events that were not written",
          events.silenced + events.dropped_full, {{"reason", "too_many"}});
  counter("tessera_agent_events_dropped_total", "Events that were not written", events.failed,
          {{"reason", "failed"}});
}

void Readings::add_server(const http::ServerStats& stats) {
  std::ranges::move(daemon::server_readings("tessera_agent_connections", stats), std::back_inserter(all_));
}

std::vector<daemon::Reading> Readings::take() {
  std::ranges::stable_sort(all_, {}, &daemon::Reading::name);
  return std::move(all_);
}

}  // namespace tessera::agent
