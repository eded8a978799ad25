#include "agent/agent.h"

#include <fmt/core.h>

#include <utility>

#include "agent/agent_parts.h"
#include "agent/foreign_use.h"
#include "agent/setup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/version.h"

namespace tessera::agent {

namespace {

// GPUs that were known before the restart are not called ill before the driver had a chance to answer.
constexpr std::chrono::seconds kDriverGrace{3};
constexpr std::chrono::seconds kLook{1};
// How long the start waits for the API server to tell what an earlier process published, where our own file
// is gone.
constexpr std::chrono::milliseconds kKnownWithin{300};
constexpr std::chrono::seconds kKnownAgain{5};
// kubelet asks as soon as it knows us, and who asks is told by the list of pods: without it kubelet is
// steered to IDs of any GPU, and keeps them. Not longer, since meanwhile kubelet refuses pods for good.
constexpr std::chrono::milliseconds kPodsWithin{350};

}  // namespace

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

// Our own file is gone: what was published on the Node tells which GPUs this machine had. Asked for again
// only while the driver does not answer: then nothing else tells.
void Agent::Parts::recover_known() {
  known_inventory.fetch(kKnownWithin, [this](Result<alloc::Inventory> found) {
    const bool useful = found && !found->gpus.empty() && !driver_was_ready;
    if (useful) {
      log::info("GPUs are known from the node's annotation", {{"gpus", found->gpus.size()}});
      known = std::move(*found);
      health.set_before(known);
    }
    if (driver == nullptr) {
      open_driver();
    } else if (useful) {
      driver->remember(known);
      if (!driver_answered() && !grace.pending()) {
        stop_waiting_for_driver();
      }
    }
    if (!found && !driver_was_ready) {
      recover = loop.after(kKnownAgain, [this] {
        if (!driver_was_ready) {
          recover_known();
        }
      });
    }
  });
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

// A driver that hangs from the start says nothing at all. kubelet must know the devices that were here all
// the same, and containers and people the reason.
void Agent::Parts::stop_waiting_for_driver() {
  if (driver_answered()) {
    driver_changed(driver_state);
  } else if (driver != nullptr) {
    driver_changed(driver->state());
  }
}

bool Agent::Parts::driver_answered() const {
  return driver_state != nullptr && driver_state->version > 0;
}

Status Agent::Parts::driver_trouble() const {
  return driver ? driver->trouble()
                : fail(ErrorCode::kUnavailable, "the API server is being asked which GPUs this node had");
}

void Agent::Parts::driver_changed(const std::shared_ptr<const gpu::DriverState>& state) {
  driver_state = state;
  show();
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
  foreign.look(state->inventory);
  publish();
  // Without the driver's word every GPU has that for a reason, and what ailed it before would be forgotten.
  if (state->ready) {
    inventory_file.set(state->inventory.json());
  }
}

void Agent::Parts::show() {
  gpu::DriverState shown = *driver_state;
  shown.inventory = without_foreign(shown.inventory, foreign.use());
  shown_state = std::make_shared<const gpu::DriverState>(std::move(shown));
}

// The GPUs of now, to kubelet, into the node and to all who ask for their health.
void Agent::Parts::publish() {
  show();
  allocator.set_inventory(shown_state->inventory);
  tell_kubelet();
  node_writer.publish(shown_state->inventory, {driver_state->compute, driver_state->cuda});
  health.report(*shown_state);
}

void Agent::Parts::tell_kubelet() {
  if (serving && (pods.is_synced() || !pods_wait.pending())) {
    plugins.publish();
  }
}

void Agent::Parts::pods_synced() {
  allocator.pods_synced();
  tell_kubelet();
}

void Agent::Parts::allocations_changed() {
  allocation_file.set(allocations.json());
  // IDs of GPUs that are gone stay listed only while they are held.
  if (serving && !driver_state->gone.empty()) {
    tell_kubelet();
  }
}

// What nobody calls us for.
void Agent::Parts::look_around() {
  health.set_hang(driver_trouble());
  if (serving && pods.is_synced() && foreign.look_again(driver_state->inventory)) {
    publish();
  }
  if (const bool ready = not_ready().empty(); ready && !std::exchange(said_ready, ready)) {
    log::info("ready",
              {{"took_ms",
                std::chrono::duration_cast<std::chrono::milliseconds>(Clock::real().now() - began).count()}});
  }
  look = loop.after(kLook, [this] { look_around(); });
}

std::string Agent::Parts::not_ready() const {
  if (const Status trouble = driver_trouble(); !trouble) {
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
  parts.grace = parts.loop.after(kDriverGrace, [&parts] { parts.stop_waiting_for_driver(); });
  parts.pods_wait = parts.loop.after(kPodsWithin, [&parts] { parts.tell_kubelet(); });
  if (parts.known.gpus.empty()) {
    parts.recover_known();
  } else {
    parts.open_driver();
  }
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
