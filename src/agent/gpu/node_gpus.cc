#include "agent/gpu/node_gpus.h"

#include <algorithm>
#include <optional>

#include "agent/gpu/foreign_use.h"
#include "agent/gpu/gpu_json.h"
#include "agent/gpu/gpu_readings.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

// GPUs that were known before the restart are not called ill before the driver had a chance to answer.
constexpr std::chrono::seconds kDriverGrace{3};
// How long the start waits for the API server to tell what an earlier process published, where our own file
// is gone.
constexpr std::chrono::milliseconds kKnownWithin{300};
constexpr std::chrono::seconds kKnownAgain{5};

std::string file_in(const std::string& state_dir, const char* name) {
  return state_dir.empty() ? "" : state_dir + "/" + name;
}

}  // namespace

NodeGpus::NodeGpus(http::EventLoop& loop, kube::Client& client, const alloc::ResourceNames& names,
                   NodePods& pods, std::unique_ptr<GrantStrategy> strategy, NodeGpusOptions options,
                   Edges edges)
    : loop_(loop),
      pods_(pods),
      options_(std::move(options)),
      edges_(std::move(edges)),
      gate_(loop),
      inventory_file_(file_in(options_.state_dir, "inventory.json")),
      known_(read_known_inventory(file_in(options_.state_dir, "inventory.json"))),
      known_inventory_(client, options_.node),
      strategy_(std::move(strategy)),
      record_writer_(client),
      kind_(loop, names, pods, book_, kind_options(), kind_edges()),
      served_(loop, pods, book_, *strategy_, kind_, edges_.kind, served_options()),
      foreign_(options_.plugins.directory, names, foreign_edges()),
      usage_(loop, client, options_.usage, edges_.record, usage_sources()),
      node_writer_(client, options_.node, options_.writer),
      health_(
          client, options_.health, edges_.record,
          [this](const std::string& uuid) { return served_.holders_of(uuid); }, known_) {}

NodeGpus::~NodeGpus() {
  // Nothing that is still on its way from the driver may find half of us.
  gate_.close();
  driver_.reset();
}

GpuKind::Options NodeGpus::kind_options() {
  GpuKind::Options options{.files = options_.files, .mends = strategy_->can_mend()};
  options.files.warn = [this](const std::string& what) { tell_node("GpuDriverIncomplete", what); };
  return options;
}

GpuKind::Edges NodeGpus::kind_edges() {
  return {
      .repair =
          [this](const NodePod& pod, const RecordRepair& repair, std::function<void(const Status&)> done) {
            record_writer_.write(pod, repair, std::move(done));
          },
      .tell = edges_.kind.tell};
}

ServedKind::Options NodeGpus::served_options() {
  return {.file = file_in(options_.state_dir, "allocations.json"),
          .plugins = options_.plugins,
          .changed = [this] { given_changed(); }};
}

UsageWatch::Sources NodeGpus::usage_sources() {
  return {.state = [this] { return shown_state_; },
          .allocations = [this] { return book_.all(); },
          .pods = [this] { return kind_.pods(); }};
}

void NodeGpus::start() {
  grace_ = loop_.after(kDriverGrace, [this] { stop_waiting_for_driver(); });
  served_.start();
  if (known_.gpus.empty()) {
    recover_known();
  } else {
    open_driver();
  }
}

// Our own file is gone: what was published on the Node tells which GPUs this machine had. Asked for again
// only while the driver does not answer: then nothing else tells.
void NodeGpus::recover_known() {
  known_inventory_.fetch(kKnownWithin, [this](Result<alloc::Inventory> found) {
    const bool useful = found && !found->gpus.empty() && !driver_was_ready_;
    if (useful) {
      log::info("GPUs are known from the node's annotation", {{"gpus", found->gpus.size()}});
      known_ = std::move(*found);
      health_.set_before(known_);
    }
    if (driver_ == nullptr) {
      open_driver();
    } else if (useful) {
      driver_->remember(known_);
      if (!driver_answered() && !grace_.pending()) {
        stop_waiting_for_driver();
      }
    }
    if (!found && !driver_was_ready_) {
      recover_ = loop_.after(kKnownAgain, [this] {
        if (!driver_was_ready_) {
          recover_known();
        }
      });
    }
  });
}

void NodeGpus::open_driver() {
  gpu::DriverOptions options = options_.driver();
  options.known = known_;
  options.on_change = gate_.wrap<std::shared_ptr<const gpu::DriverState>>(
      [this](const std::shared_ptr<const gpu::DriverState>& state) { driver_changed(state); });
  log::info("driver", {{"known_gpus", options.known.gpus.size()}});
  driver_ = std::make_unique<gpu::Driver>(std::move(options));
  usage_.start([this](auto done) { driver_->look_around(std::move(done)); });
}

// A driver that hangs from the start says nothing at all. kubelet must know the devices that were here all
// the same, and containers and people the reason.
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

Status NodeGpus::driver_trouble() const {
  return driver_ ? driver_->trouble()
                 : fail(ErrorCode::kUnavailable, "the API server is being asked which GPUs this node had");
}

void NodeGpus::driver_changed(const std::shared_ptr<const gpu::DriverState>& state) {
  driver_state_ = state;
  show();
  driver_was_ready_ = driver_was_ready_ || state->ready;
  if (state->problem != last_driver_problem_) {
    last_driver_problem_ = state->problem;
    if (state->problem.empty()) {
      log::info("the driver answers", {{"gpus", state->inventory.gpus.size()}});
    } else {
      log::error("driver", {{"problem", state->problem}});
    }
  }
  if (!driver_was_ready_ && grace_.pending()) {
    return;
  }
  // Without a GPU that was ever seen there is nothing to serve, and nothing to write about.
  if (state->inventory.gpus.empty() && state->gone.empty() && !state->ready) {
    return;
  }
  grace_.cancel();
  serving_ = true;
  kind_.set_inventory(state->inventory);  // who has been given what is judged by it
  foreign_.look(state->inventory);
  publish();
  // Without the driver's word every GPU has that for a reason, and what ailed it before would be forgotten.
  if (state->ready) {
    inventory_file_.set(state->inventory.json());
  }
}

void NodeGpus::show() {
  gpu::DriverState shown = *driver_state_;
  shown.inventory = without_foreign(shown.inventory, foreign_.use());
  shown_state_ = std::make_shared<const gpu::DriverState>(std::move(shown));
}

// The GPUs of now, to kubelet, into the node and to all who ask for their health.
void NodeGpus::publish() {
  show();
  kind_.set_inventory(shown_state_->inventory);
  served_.publish();
  // Who has a GPU through another plugin is told by the pods. Before they are known it would look free, and
  // somebody who waits for it would get it.
  if (foreign_.use().unclear && !pods_.is_synced()) {
    return;
  }
  node_writer_.publish(shown_state_->inventory, {driver_state_->compute, driver_state_->cuda});
  health_.report(*shown_state_);
}

void NodeGpus::given_changed() {
  // IDs of GPUs that are gone are listed as soon as somebody turns out to hold them.
  if (serving_ && !driver_state_->gone.empty()) {
    served_.publish();
  }
}

void NodeGpus::pods_synced() {
  // First who else has which GPU, so that kubelet never hears of one that a pod has through another plugin.
  if (serving_) {
    foreign_.look(driver_state_->inventory);
    show();
    kind_.set_inventory(shown_state_->inventory);
  }
  served_.pods_synced();
  if (serving_) {
    publish();
  }
}

void NodeGpus::look_around() {
  health_.set_hang(driver_trouble());
  if (serving_ && pods_.is_synced() && foreign_.look_again(driver_state_->inventory)) {
    publish();
  }
}

std::string NodeGpus::not_ready() const {
  if (const Status trouble = driver_trouble(); !trouble) {
    return trouble.error().text();
  }
  return served_.plugins().not_ready();
}

ForeignWatch::Edges NodeGpus::foreign_edges() {
  return {
      .holder = [this](const std::string& uid) -> std::optional<std::string> {
        const NodePod* pod = pods_.find(uid);
        // A pod that the ledger counts, as those of the original plugin, is nobody else's.
        if (pod != nullptr && kind_.decision_of(*pod).verdict == Verdict::kDecided) {
          return "";
        }
        std::string name = pods_.name_of_any(uid);
        return name.empty() ? std::nullopt : std::optional(std::move(name));
      },
      .registered =
          [this](const std::string& resource) {
            return std::ranges::any_of(served_.plugins().resources(), [&](const Plugins::Resource& one) {
              return one.name == resource && one.status.registered;
            });
          },
      .tell = [this](const std::string& reason, const std::string& message) { tell_node(reason, message); }};
}

// What is switched off is never written: it would never be settled.
std::vector<std::pair<std::string, ObjectKeeper::State>> NodeGpus::objects() const {
  std::vector<std::pair<std::string, ObjectKeeper::State>> kept{{"inventory", node_writer_.state()}};
  if (options_.health.condition) {
    kept.emplace_back("condition", health_.condition_state());
  }
  if (options_.health.config_map) {
    kept.emplace_back("config_map", health_.config_map_state());
  }
  return kept;
}

void NodeGpus::tell_node(const std::string& reason, const std::string& message) {
  log::warn("node", {{"reason", reason}, {"what", message}});
  edges_.record({.about = {.kind = "Node", .name = options_.node, .uid = options_.node},
                 .warning = true,
                 .reason = reason,
                 .message = message});
}

void NodeGpus::add_readings(Readings& readings) const {
  usage_.add_readings(readings);
  const Status trouble = driver_trouble();
  add_driver(readings, driver_state_ ? *driver_state_ : gpu::DriverState{},
             driver_ ? driver_->calls() : gpu::CallMonitor::Counts{},
             !trouble && trouble.error().code() == ErrorCode::kTimeout, usage_.sample_age());
  served_.add_readings(readings);
  add_gpu_answers(readings, kind_.counts());
}

std::string NodeGpus::unit() const {
  return (shown_state_ ? shown_state_->inventory : alloc::Inventory{}).unit.text();
}

ListedKind NodeGpus::listed() const {
  return {
      .key = "gpus", .allocations = book_.all(), .share_json = [state = shown_state_](const Share& share) {
        return gpu_json(state ? state->inventory : alloc::Inventory{}, share);
      }};
}

}  // namespace tessera::agent
