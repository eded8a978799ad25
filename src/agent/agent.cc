#include "agent/agent.h"

#include <fmt/core.h>

#include <boost/json.hpp>
#include <filesystem>
#include <future>
#include <optional>
#include <utility>

#include "agent/devices/allocations_json.h"
#include "agent/devices/cdi_strategy.h"
#include "agent/devices/delivery_strategy.h"
#include "agent/devices/drain.h"
#include "agent/devices/node_context.h"
#include "agent/devices/node_pods.h"
#include "agent/devices/observer.h"
#include "agent/devices/pod_fetch.h"
#include "agent/devices/pod_resources.h"
#include "agent/gpu/gpu_devices.h"
#include "agent/gpu/node_gpus.h"
#include "base/log.h"
#include "base/version.h"
#include "gpu/nvml_library.h"
#include "http/server.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/reflector.h"
#include "kube/request.h"

namespace tessera::agent {

namespace {

constexpr std::chrono::seconds kCheckEvery{1};

kube::EventRecorderOptions recorder_options(const std::string& node) {
  kube::EventRecorderOptions options;
  options.aggregator.component = "tessera-agent";
  options.aggregator.instance = node;
  return options;
}

// Creates the directory for files that survive a restart. Returns its path, or "" if that fails.
std::string usable_state_dir(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    log::error(
        "cannot create the state directory; after a restart allocations are rebuilt from kubelet and the "
        "API server",
        {{"directory", path}, {"error", error.message()}});
    return "";
  }
  return path;
}

HostRoot driver_root(const Paths& paths) {
  return {.host = paths.driver_root, .here = paths.driver_here()};
}

// Returns the path of NVML: the configured one, else one below the driver root, else the bare name
// for the dynamic linker.
std::string find_nvml(const Paths& paths) {
  const std::string name(gpu::NvmlLibrary::kDefaultPath);
  return paths.nvml_library.empty() ? find_driver_library(driver_root(paths), name).value_or(name)
                                    : paths.nvml_library;
}

gpu::DriverOptions driver_options(const Config& config) {
  gpu::DriverOptions options;
  options.library = [paths = config.paths] { return find_nvml(paths); };
  options.sysfs_root = config.paths.sysfs_root;
  options.discovery.unit = config.unit;
  options.discovery.subtract_reserved = config.subtract_driver_memory;
  options.discovery.machine = config.machine;
  options.health.xids = config.xids;
  return options;
}

NodeGpusOptions gpu_options(const Config& config, Metrics& metrics) {
  NodeGpusOptions options{.state_dir = usable_state_dir(config.paths.state_dir),
                          .driver = driver_options(config)};
  options.files.driver = driver_root(config.paths);
  options.files.dev = {.host = config.paths.dev_root, .here = config.paths.dev_here()};
  options.files.place = config.driver_libraries;
  options.plugins.plugin.directory = config.paths.plugin_dir();
  options.plugins.metrics = &metrics;
  options.usage = {.memory = config.memory,
                   .sampler = {.every = config.sample_every, .proc_root = config.paths.proc_root}};
  options.writer.metadata = {.labels = config.node_labels, .original_annotations = config.legacy_annotations};
  options.health = {.condition = config.node_condition,
                    .config_map = config.unhealthy_config_map,
                    .config_map_namespace = config.unhealthy_config_map_namespace};
  return options;
}

std::unique_ptr<DeliveryStrategy> make_strategy(const Config& config) {
  switch (config.strategy) {
    case StrategyKind::kDevices:
      return std::make_unique<DeviceStrategy>(gpu_info().many);
    case StrategyKind::kCdi:
      return std::make_unique<CdiStrategy>(config.paths.cdi_dir, gpu_cdi_kind());
    case StrategyKind::kEnv:
      break;
  }
  return std::make_unique<EnvStrategy>();
}

}  // namespace

struct Agent::Impl {
  Impl(http::EventLoop& loop_, Config config_, kube::Client client_);

  Status serve();
  void check();
  [[nodiscard]] std::string not_ready() const;
  void add_readings(Readings& readings) const;
  [[nodiscard]] std::string allocations_text() const;

  http::EventLoop& loop;
  Config config;
  const alloc::ResourceNames names;
  kube::Client client;
  kube::EventRecorder recorder;
  KubeletPodResources pod_resources;
  NodePods pods;
  ApiPodFetch pod_fetch;
  const CheckpointFile checkpoints;
  const NodeContext node;
  Drain drain;
  kube::Reflector pod_watch;
  Observer observer;
  std::optional<http::Server> server;
  bool logged_ready = false;
  http::Timer check_timer;
  Clock::Steady began{};
  NodeGpus gpus;  // last: it uses all members above
};

Agent::Impl::Impl(http::EventLoop& loop_, Config config_, kube::Client client_)
    : loop(loop_),
      config(std::move(config_)),
      names(config.resources),
      client(std::move(client_)),
      recorder(client, recorder_options(config.node_name)),
      pod_resources(config.paths.pod_resources_socket()),
      pods(names),
      pod_fetch(client, pods, config.node_name),
      checkpoints(config.paths.plugin_dir()),
      node{.node = config.node_name,
           .loop = loop,
           .client = client,
           .events = recorder,
           .pods = pods,
           .pod_resources = pod_resources,
           .pod_fetch = pod_fetch,
           .checkpoints = checkpoints,
           .names = names},
      drain(node),
      pod_watch(client,
                {.path = kube::pod_path("", ""),
                 .field_selector = fmt::format("spec.nodeName={}", config.node_name)},
                pods),
      observer({.not_ready = [this] { return not_ready(); },
                .readings = [this](Readings& readings) { add_readings(readings); },
                .allocations = [this] { return allocations_text(); }}),
      gpus(node, make_strategy(config), gpu_options(config, observer.metrics())) {}

// Periodic work, once a second.
void Agent::Impl::check() {
  gpus.check();
  if (const bool ready = not_ready().empty(); ready && !std::exchange(logged_ready, ready)) {
    log::info("ready",
              {{"took_ms",
                std::chrono::duration_cast<std::chrono::milliseconds>(Clock::real().now() - began).count()}});
  }
  if (drain.check(not_ready().empty(), gpus.alone())) {
    gpus.store().save_again();
  }
  check_timer = loop.after(kCheckEvery, [this] { check(); });
}

std::string Agent::Impl::not_ready() const {
  if (const std::string missing = gpus.not_ready(); !missing.empty()) {
    return missing;
  }
  if (!pod_watch.synced()) {
    return pod_watch.problem() ? "pods are still being listed: " + pod_watch.problem()->text()
                               : "pods are still being listed";
  }
  return "";
}

Status Agent::Impl::serve() {
  http::ServerOptions options;
  options.address = config.address;
  options.port = config.port;
  options.max_body_bytes = 64U << 10U;
  options.max_connections = 64;
  options.on_access = [this](const http::Access& access) { observer.metrics().count_request(access); };
  server.emplace(
      TRY(http::Server::create(loop, std::move(options), [this](http::Request& request, http::Reply reply) {
        observer.handle(request, std::move(reply));
      })));
  return {};
}

void Agent::Impl::add_readings(Readings& readings) const {
  readings.gauge("tessera_agent_ready", "1 if the agent can serve pods", not_ready().empty() ? 1 : 0);
  gpus.add_readings(readings);
  readings.gauge("tessera_agent_state_file_ok",
                 "1 if the allocations are saved in the state file, which survives a restart",
                 gpus.store().is_saved() ? 1 : 0);
  readings.add_objects(gpus.objects());
  readings.add_events("tessera_agent_events_dropped_total", recorder.counts());
  if (server) {
    readings.add_server("tessera_agent_connections", server->stats());
  }
  readings.counter("tessera_agent_watch_failures_total", "Lists and watches of pods that ended with an error",
                   pod_watch.counts().failures);
}

std::string Agent::Impl::allocations_text() const {
  return allocations_json({{"node", config.node_name}, {"unit", gpus.unit()}}, {gpus.listed()});
}

Agent::Agent(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Agent::~Agent() = default;

Result<std::unique_ptr<Agent>> Agent::create(http::EventLoop& loop, Config config,
                                             kube::ClusterAccess access) {
  kube::ClientOptions options;
  options.user_agent = fmt::format("tessera-agent/{}", version());
  options.max_connections = 8;
  kube::Client client = TRY(kube::Client::create(loop, std::move(access), options));
  auto impl = std::make_unique<Impl>(loop, std::move(config), std::move(client));
  TRY(impl->serve());
  return std::unique_ptr<Agent>(new Agent(std::move(impl)));
}

void Agent::start() {
  Impl& impl = *impl_;
  impl.began = Clock::real().now();
  log::info("start", {{"version", version()},
                      {"node", impl.config.node_name},
                      {"listen", fmt::format("{}:{}", impl.config.address, port())},
                      {"api", impl.client.server()},
                      {"unit", impl.config.unit.text()},
                      {"allocations", impl.gpus.store().allocations().size()}});
  impl.gpus.start();
  impl.pod_watch.start();
  impl.check();
}

void Agent::drain() {
  if (impl_->config.drain_timeout.count() == 0) {
    return;
  }
  std::promise<void> drained;
  impl_->loop.post([this, &drained] {
    if (!impl_->gpus.alone()) {
      impl_->gpus.store().stop_saving();
    }
    impl_->drain.begin(impl_->config.drain_timeout, [&drained] { drained.set_value(); });
  });
  drained.get_future().wait();
}

void Agent::leave() {
  impl_->gpus.leave();
}

std::uint16_t Agent::port() const {
  return impl_->server->port();
}

std::string Agent::not_ready() const {
  return impl_->not_ready();
}

}  // namespace tessera::agent
