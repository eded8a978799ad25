// How the parts of an agent are put together, and what each asks the others.
#include "agent/agent_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "agent/setup.h"
#include "base/log.h"
#include "kube/request.h"

namespace tessera::agent {

namespace {

kube::EventRecorderOptions recorder_options(const std::string& node) {
  kube::EventRecorderOptions options;
  options.aggregator.component = "tessera-agent";
  options.aggregator.instance = node;
  return options;
}

}  // namespace

Agent::Parts::Parts(http::EventLoop& loop_, Config config_, kube::Client client_)
    : loop(loop_),
      config(std::move(config_)),
      names(config.resources),
      state_dir(usable_state_dir(config.paths.state_dir)),
      gate(loop),
      client(std::move(client_)),
      recorder(client, recorder_options(config.node_name)),
      pod_resources(config.paths.pod_resources_socket()),
      allocation_file(below(state_dir, "allocations.json")),
      inventory_file(below(state_dir, "inventory.json")),
      known(read_known_inventory(below(state_dir, "inventory.json"))),
      known_inventory(client, config.node_name),
      strategy(
          make_strategy(config, [this](const std::string& what) { tell_node("GpuDriverIncomplete", what); })),
      pods(names, {.changed = [this](const NodePod& pod) { allocator.pod_changed(pod); },
                   .ended = [this](const std::string& uid) { allocator.pod_ended(uid); },
                   .synced = [this] { pods_synced(); }}),
      pod_fetch(client, pods, config.node_name),
      record_writer(client),
      allocator(loop, pods, allocations, *strategy, allocator_edges()),
      foreign(config.paths.plugin_dir(), names, foreign_edges()),
      observer(
          loop, client,
          {.node = config.node_name,
           .memory = config.memory,
           .sampler = {.every = config.sample_every, .proc_root = config.paths.proc_root}},
          [this](const kube::EventNote& note) { recorder.record(note); }, observer_sources()),
      plugins(loop, allocator, names, plugin_options()),
      pod_watch(client,
                {.path = kube::pod_path("", ""),
                 .field_selector = fmt::format("spec.nodeName={}", config.node_name)},
                pods),
      node_writer(client, config.node_name,
                  {.metadata = {.labels = config.node_labels, .legacy = config.legacy_annotations}}),
      health(
          client,
          {.node = config.node_name,
           .condition = config.node_condition,
           .config_map = config.unhealthy_config_map,
           .config_map_namespace = config.unhealthy_config_map_namespace},
          [this](const kube::EventNote& note) { recorder.record(note); },
          [this](const std::string& uuid) { return holders_of(uuid); }, known) {}

GpuAllocator::Edges Agent::Parts::allocator_edges() {
  return {
      .get = [this](
                 const PodName& pod, std::chrono::milliseconds deadline,
                 PodResources::Done<PodDevices> done) { pod_resources.get(pod, deadline, std::move(done)); },
      .fetch = [this](std::function<void(Status)> done) { pod_fetch.fetch(std::move(done)); },
      .checkpoint = [this] { return Checkpoint::read(config.paths.plugin_dir()); },
      .repair =
          [this](const NodePod& pod, const RecordRepair& repair, std::function<void(const Status&)> done) {
            record_writer.write(pod, repair, std::move(done));
          },
      .tell = [this](const NodePod& pod, const std::string& reason,
                     const std::string& message) { tell(pod, reason, message); },
      .changed = [this] { allocations_changed(); }};
}

ForeignWatch::Edges Agent::Parts::foreign_edges() {
  return {
      .holder = [this](const std::string& uid) -> std::optional<std::string> {
        const NodePod* pod = pods.find(uid);
        // A pod that the books count, as those of the original plugin, is nobody else's.
        if (pod != nullptr && allocator.decision_of(*pod).verdict == Verdict::kDecided) {
          return "";
        }
        std::string name = pods.name_of_any(uid);
        return name.empty() ? std::nullopt : std::optional(std::move(name));
      },
      .registered =
          [this](const std::string& resource) {
            return std::ranges::any_of(plugins.resources(), [&](const GpuPlugins::Resource& one) {
              return one.name == resource && one.status.registered;
            });
          },
      .tell = [this](const std::string& reason, const std::string& message) { tell_node(reason, message); }};
}

DevicePluginOptions Agent::Parts::plugin_options() {
  DevicePluginOptions options;
  options.directory = config.paths.plugin_dir();
  options.on_call = [this](std::string_view call, const std::string& resource, bool well,
                           std::chrono::nanoseconds took) {
    observer.metrics().kubelet_asked(call, resource, well, took);
  };
  return options;
}

Observer::Sources Agent::Parts::observer_sources() {
  return {.not_ready = [this] { return not_ready(); },
          .state = [this] { return shown_state; },
          .allocations = [this] { return allocations.all(); },
          .pods =
              [this] {
                std::vector<const alloc::PodSpec*> specs;
                for (const NodePod* pod : pods.in_bind_order()) {
                  specs.push_back(&pod->spec);
                }
                return specs;
              },
          .more = [this](std::optional<std::chrono::nanoseconds> sample_age,
                         Readings& readings) { add_readings(sample_age, readings); }};
}

void Agent::Parts::add_readings(std::optional<std::chrono::nanoseconds> sample_age,
                                Readings& readings) const {
  const Status trouble = driver_trouble();
  readings.gauge("tessera_agent_ready", "1 when pods can be served", not_ready().empty() ? 1 : 0);
  readings.add_driver(driver_state ? *driver_state : gpu::DriverState{},
                      driver ? driver->calls() : gpu::CallMonitor::Counts{},
                      !trouble && trouble.error().code() == ErrorCode::kTimeout, sample_age);
  std::vector<std::pair<std::string, DevicePluginStatus>> statuses;
  for (const GpuPlugins::Resource& resource : plugins.resources()) {
    statuses.emplace_back(resource.name, resource.status);
    readings.gauge("tessera_agent_devices", "Devices that kubelet was told of",
                   static_cast<double>(resource.devices), {{"resource", resource.name}});
    readings.gauge("tessera_agent_devices_healthy", "Of these, those that pods can get",
                   static_cast<double>(resource.healthy), {{"resource", resource.name}});
  }
  readings.add_plugins(statuses);
  readings.add_answers(allocator.counts(), allocator.search().counts());
  readings.gauge("tessera_agent_records_kept",
                 "1 when what was given out is in a file that survives a restart",
                 !state_dir.empty() && allocation_file.problem().empty() ? 1 : 0);
  readings.add_objects(objects());
  readings.add_events(recorder.counts());
  if (server) {
    readings.add_server(server->stats());
  }
  readings.counter("tessera_agent_watch_failures_total", "Lists and watches of pods that ended with an error",
                   pod_watch.counts().failures);
}

// What is switched off is never written: it would never be settled.
std::vector<std::pair<std::string, ObjectKeeper::State>> Agent::Parts::objects() const {
  std::vector<std::pair<std::string, ObjectKeeper::State>> kept{{"inventory", node_writer.state()}};
  if (config.node_condition) {
    kept.emplace_back("condition", health.condition_state());
  }
  if (config.unhealthy_config_map) {
    kept.emplace_back("config_map", health.config_map_state());
  }
  return kept;
}

void Agent::Parts::tell_node(const std::string& reason, const std::string& message) {
  log::warn("node", {{"reason", reason}, {"what", message}});
  recorder.record({.about = {.kind = "Node", .name = config.node_name, .uid = config.node_name},
                   .warning = true,
                   .reason = reason,
                   .message = message});
}

void Agent::Parts::tell(const NodePod& pod, const std::string& reason, const std::string& message) {
  recorder.record({.about = {.kind = "Pod",
                             .namespace_name = pod.spec.pod_namespace,
                             .name = pod.spec.name,
                             .uid = pod.spec.uid},
                   .warning = true,
                   .reason = reason,
                   .message = message});
}

std::vector<kube::ObjectReference> Agent::Parts::holders_of(const std::string& uuid) const {
  std::map<std::string, kube::ObjectReference> found;
  for (const Allocation& allocation : allocations.all()) {
    if (!is_unknown_pod(allocation.pod_uid) &&
        std::ranges::find(allocation.grants, uuid, &alloc::Grant::gpu) != allocation.grants.end()) {
      found[allocation.pod_uid] = {.kind = "Pod",
                                   .namespace_name = allocation.pod.pod_namespace,
                                   .name = allocation.pod.name,
                                   .uid = allocation.pod_uid};
    }
  }
  std::vector<kube::ObjectReference> pods_with_it;
  for (auto& [uid, reference] : found) {
    pods_with_it.push_back(std::move(reference));
  }
  return pods_with_it;
}

}  // namespace tessera::agent
