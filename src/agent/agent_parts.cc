// How the parts of an agent are put together, and what each asks the others.
#include "agent/agent_parts.h"

#include <fmt/core.h>

#include <boost/json.hpp>

#include "agent/devices/allocations_json.h"
#include "agent/setup.h"
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
      client(std::move(client_)),
      recorder(client, recorder_options(config.node_name)),
      pod_resources(config.paths.pod_resources_socket()),
      pods(names, {.changed = [this](const NodePod&) { gpus.pod_changed(); },
                   .ended = [this](const std::string& uid) { gpus.pod_ended(uid); },
                   .synced = [this] { gpus.pods_synced(); }}),
      pod_fetch(client, pods, config.node_name),
      pod_watch(client,
                {.path = kube::pod_path("", ""),
                 .field_selector = fmt::format("spec.nodeName={}", config.node_name)},
                pods),
      observer(observer_sources()),
      gpus(loop, client, names, pods, make_strategy(config), gpu_options(), kind_edges()) {}

NodeGpus::Edges Agent::Parts::kind_edges() {
  return {.kind = {.get =
                       [this](const PodName& pod, std::chrono::milliseconds deadline,
                              PodResources::Done<PodDevices> done) {
                         pod_resources.get(pod, deadline, std::move(done));
                       },
                   .fetch = [this](std::function<void(Status)> done) { pod_fetch.fetch(std::move(done)); },
                   .checkpoint = [this] { return Checkpoint::read(config.paths.plugin_dir()); },
                   .tell =
                       [this](const NodePod& pod, const std::string& reason, const std::string& message) {
                         recorder.record({.about = {.kind = "Pod",
                                                    .namespace_name = pod.spec.namespace_name,
                                                    .name = pod.spec.name,
                                                    .uid = pod.spec.uid},
                                          .warning = true,
                                          .reason = reason,
                                          .message = message});
                       }},
          .record = [this](const kube::EventNote& note) { recorder.record(note); }};
}

NodeGpusOptions Agent::Parts::gpu_options() {
  NodeGpusOptions options = tessera::agent::gpu_options(config);
  options.plugins.on_call = [this](std::string_view call, const std::string& resource, bool well,
                                   std::chrono::nanoseconds took) {
    observer.metrics().kubelet_asked(call, resource, well, took);
  };
  options.plugins.on_too_long = [this](const std::string& what) {
    recorder.record({.about = {.kind = "Node", .name = config.node_name, .uid = config.node_name},
                     .warning = true,
                     .reason = "DeviceListTooLong",
                     .message = what});
  };
  options.usage.pods_known = [this] { return pods.is_synced(); };
  options.usage.name_of_pod = [this](const std::string& uid) { return pods.name_of_any(uid); };
  options.usage.checkpoint = [this] { return Checkpoint::read(config.paths.plugin_dir()); };
  return options;
}

Observer::Sources Agent::Parts::observer_sources() {
  return {.not_ready = [this] { return not_ready(); },
          .readings = [this](Readings& readings) { add_readings(readings); },
          .allocations = [this] { return allocations_text(); }};
}

void Agent::Parts::add_readings(Readings& readings) const {
  readings.gauge("tessera_agent_ready", "1 when pods can be served", not_ready().empty() ? 1 : 0);
  gpus.add_readings(readings);
  readings.gauge("tessera_agent_state_file_ok",
                 "1 when what was given out is in a file that survives a restart",
                 gpus.served().is_kept() ? 1 : 0);
  readings.add_objects(gpus.objects());
  readings.add_events(recorder.counts());
  if (server) {
    readings.add_server(server->stats());
  }
  readings.counter("tessera_agent_watch_failures_total", "Lists and watches of pods that ended with an error",
                   pod_watch.counts().failures);
}

std::string Agent::Parts::allocations_text() const {
  return allocations_json({{"node", config.node_name}, {"unit", gpus.unit()}}, {gpus.listed()});
}

}  // namespace tessera::agent
