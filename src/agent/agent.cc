#include "agent/agent.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "agent/allocations.h"
#include "agent/foreign_use.h"
#include "agent/gpu_allocator.h"
#include "agent/gpu_plugins.h"
#include "agent/grant_strategy.h"
#include "agent/health_reporter.h"
#include "agent/late_file.h"
#include "agent/loop_gate.h"
#include "agent/node_pods.h"
#include "agent/node_writer.h"
#include "agent/observer.h"
#include "agent/pod_fetch.h"
#include "agent/pod_resources.h"
#include "agent/setup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/version.h"
#include "gpu/driver.h"
#include "http/server.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/reflector.h"
#include "kube/request.h"

namespace tessera::agent {

namespace {

// GPUs that were known before the restart are not called ill before the driver had a chance to answer.
constexpr std::chrono::seconds kDriverGrace{3};
constexpr std::chrono::seconds kLook{1};

// Changes when a file is replaced.
using FileStamp = std::pair<std::uint64_t, std::int64_t>;

FileStamp stamp_of(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    return {};
  }
  return {status.st_ino, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

kube::EventRecorderOptions recorder_options(const std::string& node) {
  kube::EventRecorderOptions options;
  options.aggregator.component = "tessera-agent";
  options.aggregator.instance = node;
  return options;
}

}  // namespace

struct Agent::Parts {
  Parts(http::EventLoop& loop_, Config config_, kube::Client client_)
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
        strategy(make_strategy(config)),
        pods(names, {.changed = [this](const NodePod& pod) { allocator.pod_changed(pod); },
                     .ended = [this](const std::string& uid) { allocator.pod_ended(uid); },
                     .synced = [this] { pods_synced(); }}),
        pod_fetch(client, pods, config.node_name),
        allocator(loop, pods, allocations, *strategy, allocator_edges()),
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

  GpuAllocator::Edges allocator_edges();
  DevicePluginOptions plugin_options();
  Observer::Sources observer_sources();
  void add_readings(std::optional<std::chrono::nanoseconds> sample_age, Readings& readings) const;
  void load_allocations();
  void open_driver();
  Status serve();

  void driver_changed(const std::shared_ptr<const gpu::DriverState>& state);
  void publish();
  bool find_foreign();
  void tell_node(const std::string& reason, const std::string& message);
  void pods_synced();
  void allocations_changed();
  void tell(const NodePod& pod, const std::string& reason, const std::string& message);
  [[nodiscard]] std::vector<kube::ObjectReference> holders_of(const std::string& uuid) const;
  void look_around();
  [[nodiscard]] std::string not_ready() const;

  http::EventLoop& loop;
  Config config;
  const alloc::ResourceNames names;
  const std::string state_dir;
  LoopGate gate;
  kube::Client client;
  kube::EventRecorder recorder;
  PodResources pod_resources;
  LateFile allocation_file;
  LateFile inventory_file;
  Allocations allocations;
  const alloc::Inventory known;  // what an earlier process saw
  std::unique_ptr<GrantStrategy> strategy;
  NodePods pods;
  PodFetch pod_fetch;
  GpuAllocator allocator;
  Observer observer;
  GpuPlugins plugins;  // behind what its answers are counted in
  kube::Reflector pod_watch;
  NodeWriter node_writer;
  HealthReporter health;
  std::optional<http::Server> server;
  std::shared_ptr<const gpu::DriverState> driver_state;
  ForeignUse foreign;
  FileStamp checkpoint_stamp;
  bool driver_was_ready = false;
  bool serving = false;  // kubelet has been told of GPUs
  bool said_ready = false;
  std::string last_driver_problem;
  http::Timer grace;
  http::Timer look;
  Clock::Steady began{};
  std::unique_ptr<gpu::Driver> driver;  // last: it calls into the others
};

GpuAllocator::Edges Agent::Parts::allocator_edges() {
  return {
      .get = [this](
                 const PodName& pod, std::chrono::milliseconds deadline,
                 PodResources::Done<PodDevices> done) { pod_resources.get(pod, deadline, std::move(done)); },
      .fetch = [this](std::function<void(Status)> done) { pod_fetch.fetch(std::move(done)); },
      .checkpoint = [this] { return Checkpoint::read(config.paths.plugin_dir()); },
      .tell = [this](const NodePod& pod, const std::string& reason,
                     const std::string& message) { tell(pod, reason, message); },
      .changed = [this] { allocations_changed(); }};
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
          .state = [this] { return driver_state; },
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
  const Status trouble = driver->trouble();
  readings.gauge("tessera_agent_ready", "1 when pods can be served", not_ready().empty() ? 1 : 0);
  readings.add_driver(driver_state ? *driver_state : gpu::DriverState{}, driver->calls(),
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
  readings.add_objects({{"inventory", node_writer.state()},
                        {"condition", health.condition_state()},
                        {"config_map", health.config_map_state()}});
  readings.add_events(recorder.counts());
  readings.counter("tessera_agent_watch_failures_total", "Lists and watches of pods that ended with an error",
                   pod_watch.counts().failures);
}

void Agent::Parts::load_allocations() {
  const std::string path = below(state_dir, "allocations.json");
  const Result<std::string> text =
      path.empty() ? fail(ErrorCode::kNotFound, "") : read_file(path, Allocations::kMaxBytes);
  if (!text) {
    return;
  }
  if (const Status read = allocations.parse(*text); !read) {
    log::error("the record of what was given cannot be read; it is rebuilt from kubelet",
               {{"file", path}, {"why", read.error()}});
  }
}

void Agent::Parts::open_driver() {
  gpu::DriverOptions options;
  options.library = find_nvml(config.paths);
  options.sysfs_root = config.paths.sysfs_root;
  options.discovery.unit = config.unit;
  options.discovery.subtract_reserved = config.subtract_driver_memory;
  options.discovery.machine = config.machine;
  options.health.xids = config.xids;
  options.known = known;
  options.on_change = gate.wrap<std::shared_ptr<const gpu::DriverState>>(
      [this](const std::shared_ptr<const gpu::DriverState>& state) { driver_changed(state); });
  log::info("driver", {{"library", options.library}, {"known_gpus", options.known.gpus.size()}});
  driver = std::make_unique<gpu::Driver>(std::move(options));
  observer.start([this](auto done) { driver->look_around(std::move(done)); });
}

void Agent::Parts::driver_changed(const std::shared_ptr<const gpu::DriverState>& state) {
  driver_state = state;
  driver_was_ready = driver_was_ready || state->ready;
  if (state->problem != last_driver_problem) {
    last_driver_problem = state->problem;
    if (state->problem.empty()) {
      log::info("the driver answers", {{"gpus", state->inventory.gpus.size()}});
    } else {
      log::error("driver", {{"problem", state->problem}});
    }
  }
  if (!driver_was_ready && grace.pending()) {
    return;
  }
  // Without a GPU that was ever seen there is nothing to serve, and nothing to write about.
  if (state->inventory.gpus.empty() && state->gone.empty() && !state->ready) {
    return;
  }
  grace.cancel();
  serving = true;
  find_foreign();
  publish();
  health.report(*state);
  inventory_file.set(state->inventory.json());
}

// The GPUs of now, to kubelet and into the node.
void Agent::Parts::publish() {
  const alloc::Inventory inventory = without_foreign(driver_state->inventory, foreign);
  allocator.set_inventory(inventory);
  plugins.publish();
  node_writer.publish(inventory, {driver_state->compute, driver_state->cuda});
}

// Whether somebody else gives GPUs of this node out. True when that has changed.
bool Agent::Parts::find_foreign() {
  const Result<Checkpoint> checkpoint = Checkpoint::read(config.paths.plugin_dir());
  if (!checkpoint) {
    return false;
  }
  ForeignUse now =
      find_foreign_use(*checkpoint, driver_state->inventory, names, [this](const std::string& uid) {
        const NodePod* pod = pods.find(uid);
        // A pod that the books count, as those of the original plugin, is nobody else's.
        return pod != nullptr && allocator.decision_of(*pod).verdict == Verdict::kDecided
                   ? std::string()
                   : pods.name_of_any(uid);
      });
  if (now == foreign) {
    return false;
  }
  for (const std::string& resource : now.resources) {
    if (std::ranges::find(foreign.resources, resource) == foreign.resources.end()) {
      tell_node(
          "OtherDevicePlugin",
          fmt::format("another device plugin serves the GPUs of this node as {}: pods that ask for it and "
                      "pods of Tessera may meet on one GPU; remove that plugin, or start tessera-agent "
                      "with --resource-whole {}",
                      resource, resource));
    }
  }
  for (const auto& [uuid, why] : now.held) {
    if (!foreign.held.contains(uuid)) {
      tell_node("GpuHeldElsewhere", fmt::format("GPU {} is not offered: {}", uuid, why));
    }
  }
  foreign = std::move(now);
  return true;
}

void Agent::Parts::tell_node(const std::string& reason, const std::string& message) {
  log::warn("node", {{"reason", reason}, {"what", message}});
  recorder.record({.about = {.kind = "Node", .name = config.node_name, .uid = config.node_name},
                   .warning = true,
                   .reason = reason,
                   .message = message});
}

void Agent::Parts::pods_synced() {
  allocator.pods_synced();
  if (serving) {
    plugins.publish();
  }
}

void Agent::Parts::allocations_changed() {
  allocation_file.set(allocations.json());
  // IDs of GPUs that are gone stay listed only while they are held.
  if (serving && !driver_state->gone.empty()) {
    plugins.publish();
  }
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
    if (std::ranges::find(allocation.grants, uuid, &alloc::Grant::gpu) != allocation.grants.end()) {
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

// What nobody calls us for.
void Agent::Parts::look_around() {
  health.set_hang(driver->trouble());
  const FileStamp stamp = stamp_of(config.paths.plugin_dir() + "/" + Checkpoint::kFile);
  if (serving && pods.is_synced() && (stamp != checkpoint_stamp || !foreign.held.empty())) {
    checkpoint_stamp = stamp;
    if (find_foreign()) {
      publish();
    }
  }
  if (const bool ready = not_ready().empty(); ready && !std::exchange(said_ready, ready)) {
    log::info("ready",
              {{"took_ms",
                std::chrono::duration_cast<std::chrono::milliseconds>(Clock::real().now() - began).count()}});
  }
  look = loop.after(kLook, [this] { look_around(); });
}

std::string Agent::Parts::not_ready() const {
  if (const Status trouble = driver->trouble(); !trouble) {
    return trouble.error().text();
  }
  if (const std::string missing = plugins.not_ready(); !missing.empty()) {
    return missing;
  }
  if (!pod_watch.synced()) {
    return pod_watch.problem() ? "pods are still being listed: " + pod_watch.problem()->text()
                               : "pods are still being listed";
  }
  return "";
}

Status Agent::Parts::serve() {
  http::ServerOptions options;
  options.address = config.address;
  options.port = config.port;
  options.max_body_bytes = 64U << 10U;
  options.max_connections = 64;
  options.on_access = [this](const http::Access& access) { observer.metrics().answered(access); };
  server.emplace(
      TRY(http::Server::create(loop, std::move(options), [this](http::Request& request, http::Reply reply) {
        observer.handle(request, std::move(reply));
      })));
  return {};
}

Agent::Agent(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Agent::~Agent() {
  // Nothing that is still on its way from the driver or kubelet may find half an agent.
  parts_->gate.close();
  parts_->driver.reset();
}

Result<std::unique_ptr<Agent>> Agent::create(http::EventLoop& loop, Config config,
                                             kube::ClusterAccess access) {
  kube::ClientOptions options;
  options.user_agent = fmt::format("tessera-agent/{}", version());
  options.max_connections = 8;
  kube::Client client = TRY(kube::Client::create(loop, std::move(access), options));
  auto parts = std::make_unique<Parts>(loop, std::move(config), std::move(client));
  TRY(parts->serve());
  parts->load_allocations();
  return std::unique_ptr<Agent>(new Agent(std::move(parts)));
}

void Agent::start() {
  Parts& parts = *parts_;
  parts.began = Clock::real().now();
  log::info("start", {{"version", version()},
                      {"node", parts.config.node_name},
                      {"listen", fmt::format("{}:{}", parts.config.address, port())},
                      {"api", parts.client.server()},
                      {"unit", parts.config.unit.text()},
                      {"records", parts.allocations.size()}});
  parts.grace = parts.loop.after(kDriverGrace, [&parts] {
    if (parts.driver_state != nullptr) {
      parts.driver_changed(parts.driver_state);
    }
  });
  parts.open_driver();
  parts.pod_watch.start();
  parts.look_around();
}

void Agent::leave() {
  parts_->plugins.leave();
}

std::uint16_t Agent::port() const {
  return parts_->server->port();
}

std::string Agent::not_ready() const {
  return parts_->not_ready();
}

}  // namespace tessera::agent
