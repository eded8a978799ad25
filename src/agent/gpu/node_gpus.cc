#include "agent/gpu/node_gpus.h"

#include <boost/json.hpp>

#include "agent/gpu/foreign_use.h"
#include "agent/gpu/gpu_devices.h"
#include "agent/gpu/gpu_readings.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

// The driver gets this long to answer before the GPUs known from an earlier process are published
// as unhealthy.
constexpr std::chrono::seconds kDriverGrace{3};
// If there is no state file, the start waits this long for the inventory that an earlier process
// published on the Node.
constexpr std::chrono::milliseconds kKnownTimeout{300};
constexpr std::chrono::seconds kKnownRetry{5};

std::string file_in(const std::string& state_dir, const char* name) {
  return state_dir.empty() ? "" : state_dir + "/" + name;
}

}  // namespace

NodeGpus::NodeGpus(const NodeContext& node, std::unique_ptr<DeliveryStrategy> strategy,
                   NodeGpusOptions options)
    : node_(node),
      options_(std::move(options)),
      gate_(node.loop),
      inventory_file_(file_in(options_.state_dir, "inventory.json")),
      known_(read_known_inventory(file_in(options_.state_dir, "inventory.json"))),
      known_inventory_(node.client, node.node),
      strategy_(std::move(strategy)),
      record_writer_(node.client),
      store_(node, GpuKind::keys(), file_in(options_.state_dir, "allocations.json")),
      leftovers_(node.loop, store_.allocations(), {.proc_root = options_.usage.sampler.proc_root}),
      kind_(node, store_.allocations(), record_writer_,
            {.files = options_.files, .can_update = strategy_->can_update(), .leftovers = &leftovers_}),
      record_guard_(node, kind_),
      plugins_({.node = node, .kind = kind_, .strategy = *strategy_, .store = store_}, options_.plugins),
      foreign_(node, kind_, options_.plugins.plugin.directory),
      usage_(node, store_.allocations(), options_.usage),
      node_writer_(node.client, node.node, options_.writer),
      health_(node, store_.allocations(), options_.health, known_) {
  node_.pods.add_listener(*this);
  store_.add_listener(*this);
}

NodeGpus::~NodeGpus() {
  node_.pods.remove_listener(*this);
  store_.remove_listener(*this);
  // A callback of the driver that is still in flight must not run on a half-destroyed object.
  gate_.close();
  driver_.reset();
}

void NodeGpus::start() {
  grace_timer_ = node_.loop.after(kDriverGrace, [this] { stop_waiting_for_driver(); });
  plugins_.start();
  if (known_.gpus.empty()) {
    recover_known();
  } else {
    open_driver();
  }
}

// Gets the inventory that an earlier process published on the Node, because there is no state file.
// Retries only while the driver is not ready, because there is no other source then.
void NodeGpus::recover_known() {
  known_inventory_.fetch(kKnownTimeout, [this](Result<alloc::Inventory> found) {
    const bool useful = found && !found->gpus.empty() && !driver_was_ready_;
    if (useful) {
      log::info("GPUs recovered from the Node", {{"gpus", found->gpus.size()}});
      known_ = std::move(*found);
      health_.set_before(known_);
    }
    if (driver_ == nullptr) {
      open_driver();
    } else if (useful) {
      driver_->set_known(known_);
      if (!driver_answered() && !grace_timer_.pending()) {
        stop_waiting_for_driver();
      }
    }
    if (!found && !driver_was_ready_) {
      recovery_timer_ = node_.loop.after(kKnownRetry, [this] {
        if (!driver_was_ready_) {
          recover_known();
        }
      });
    }
  });
}

void NodeGpus::open_driver() {
  gpu::DriverOptions options = options_.driver;
  options.known = known_;
  options.on_change = gate_.wrap<std::shared_ptr<const gpu::DriverState>>(
      [this](const std::shared_ptr<const gpu::DriverState>& state) { driver_changed(state); });
  log::info("opening the driver", {{"known_gpus", options.known.gpus.size()}});
  driver_ = std::make_unique<gpu::Driver>(std::move(options));
  const auto sample = [this](auto done) { driver_->sample(std::move(done)); };
  usage_.start(sample);
  leftovers_.set_sampler(sample);
}

// Publishes the known GPUs if the driver hangs from the start and so never reports a state. kubelet
// must know the devices that running containers hold, and the operator needs the reason.
void NodeGpus::stop_waiting_for_driver() {
  if (driver_answered()) {
    driver_changed(driver_state_);
  } else if (driver_ != nullptr) {
    driver_changed(driver_->state());
  }
}

bool NodeGpus::driver_answered() const {
  return driver_state_ != nullptr && driver_state_->version > 0;
}

Status NodeGpus::driver_problem() const {
  return driver_ ? driver_->problem()
                 : fail(ErrorCode::kUnavailable,
                        "waiting for the API server to return the last known GPUs of this node");
}

void NodeGpus::driver_changed(const std::shared_ptr<const gpu::DriverState>& state) {
  driver_state_ = state;
  update_published_state();
  driver_was_ready_ = driver_was_ready_ || state->ready;
  if (state->problem != last_driver_problem_) {
    last_driver_problem_ = state->problem;
    if (state->problem.empty()) {
      log::info("driver ready", {{"gpus", state->inventory.gpus.size()}});
    } else {
      log::error("driver not ready", {{"error", state->problem}});
    }
  }
  if (!driver_was_ready_ && grace_timer_.pending()) {
    return;
  }
  // If no GPU has ever been seen, there is nothing to serve or to publish.
  if (state->inventory.gpus.empty() && state->gone.empty() && !state->ready) {
    return;
  }
  grace_timer_.cancel();
  serving_ = true;
  kind_.set_inventory(state->inventory);  // foreign_ checks the records of pods against it
  foreign_.update(state->inventory, registered());
  publish();
  // While the driver is not ready, that is the reason of every GPU. Saving it would overwrite the
  // GPU's own reason.
  if (state->ready) {
    inventory_file_.set(state->inventory.json());
  }
}

// Computes the state to publish from the driver's state and the GPUs that other plugins allocate.
void NodeGpus::update_published_state() {
  gpu::DriverState published = *driver_state_;
  published.inventory = without_foreign(published.inventory, foreign_.use());
  published_state_ = std::make_shared<const gpu::DriverState>(std::move(published));
  usage_.set_state(published_state_);
}

// Publishes the current GPUs to kubelet, to the Node and in health reports.
void NodeGpus::publish() {
  update_published_state();
  kind_.set_inventory(published_state_->inventory);
  record_guard_.check_all();
  plugins_.publish();
  // Which pods hold a GPU through another plugin is unknown until the pods are listed. Until then
  // the GPU would look free, and the scheduler would allocate it to a waiting pod.
  if (foreign_.use().has_unknown_pod && !node_.pods.is_synced()) {
    return;
  }
  // It is not known whether the GPUs work while the driver hangs, so the scheduler must not choose
  // them. For kubelet they stay healthy: it would refuse pods that are already bound, for good.
  node_writer_.publish(during_hang(published_state_->inventory, health_.hang()),
                       {driver_state_->compute, driver_state_->cuda});
  health_.report(*published_state_);
}

void NodeGpus::allocations_changed() {
  record_guard_.check_all();
  // List the IDs of missing GPUs as soon as a container turns out to hold them.
  if (serving_ && !driver_state_->gone.empty()) {
    plugins_.publish();
  }
}

void NodeGpus::pods_synced() {
  // First find the GPUs that pods hold through other plugins, so that kubelet is never offered one.
  if (serving_) {
    foreign_.update(driver_state_->inventory, registered());
    update_published_state();
    kind_.set_inventory(published_state_->inventory);
  }
  plugins_.pods_synced();
  if (serving_) {
    publish();
  }
}

void NodeGpus::check() {
  const bool hang_changed = health_.set_hang(driver_problem());
  const bool foreign_changed = serving_ && node_.pods.is_synced() &&
                               foreign_.update_if_changed(driver_state_->inventory, registered());
  if (serving_ && (hang_changed || foreign_changed)) {
    publish();
  }
}

ForeignWatch::Registered NodeGpus::registered() const {
  ForeignWatch::Registered names;
  for (const Plugins::Resource& resource : plugins_.resources()) {
    if (resource.status.registered) {
      names.insert(resource.name);
    }
  }
  return names;
}

std::string NodeGpus::not_ready() const {
  if (const Status problem = driver_problem(); !problem) {
    return problem.error().text();
  }
  return plugins_.not_ready();
}

// An object that is switched off is left out, because it would never become up to date.
std::vector<std::pair<std::string, ObjectReconciler::State>> NodeGpus::objects() const {
  std::vector<std::pair<std::string, ObjectReconciler::State>> objects{{"inventory", node_writer_.state()}};
  if (options_.health.condition) {
    objects.emplace_back("condition", health_.condition_state());
  }
  if (options_.health.config_map) {
    objects.emplace_back("config_map", health_.config_map_state());
  }
  return objects;
}

void NodeGpus::add_readings(Readings& readings) const {
  usage_.add_readings(readings);
  const Status problem = driver_problem();
  add_driver(readings, driver_state_ ? *driver_state_ : gpu::DriverState{},
             driver_ ? driver_->calls() : gpu::CallMonitor::Counts{},
             !problem && problem.error().code() == ErrorCode::kTimeout, usage_.sample_age());
  plugins_.add_readings(readings);
  add_gpu_counts(readings, kind_.counts());
}

std::string NodeGpus::unit() const {
  return (published_state_ ? published_state_->inventory : alloc::Inventory{}).unit.text();
}

ListedKind NodeGpus::listed() const {
  const alloc::Inventory inventory = published_state_ ? published_state_->inventory : alloc::Inventory{};
  ListedKind kind{.key = "gpus", .allocations = {}};
  for (const Allocation& allocation : store_.allocations().all()) {
    boost::json::array shares;
    for (const DeviceShare& share : allocation.shares) {
      shares.push_back(gpu_json(inventory, share));
    }
    kind.allocations.push_back({.allocation = allocation, .shares = std::move(shares)});
  }
  return kind;
}

}  // namespace tessera::agent
