#include "gpu/session.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"

namespace tessera::gpu {

namespace {

constexpr std::chrono::seconds kBusyWindow{10};
constexpr std::size_t kReasonBytes = 500;  // an inventory allows 512

Clock::Steady now_steady() {
  return Clock::real().now();
}

std::chrono::milliseconds until(Clock::Steady then, Clock::Steady now) {
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(then - now), std::chrono::milliseconds(0));
}

}  // namespace

Session::Session(DriverOptions options, CallMonitor& monitor, Publish publish)
    : options_(std::move(options)),
      monitor_(&monitor),
      publish_(std::move(publish)),
      sysfs_(options_.sysfs_root),
      pace_(options_.reopen_every, options_.reopen_at_most, options_.retry) {
  restore_known(options_.known);
}

// Restores the health of each GPU too: a GPU that was unhealthy before a restart stays unhealthy
// until HealthTracker considers it recovered.
void Session::restore_known(const alloc::Inventory& known) {
  discovery_.inventory = known;
  discovery_.inventory.unit = options_.discovery.unit;
  discovery_.details.assign(known.gpus.size(), {});
  for (const alloc::Gpu& gpu : known.gpus) {
    ever_.emplace(gpu.uuid, gpu);
    health_of(gpu.uuid).restore(gpu.unhealthy, now_steady());
  }
}

void Session::set_known(const alloc::Inventory& known) {
  if (discovery_.inventory.gpus.empty() && !nvml_) {
    restore_known(known);
    publish();
  }
}

Session::~Session() {
  close();
}

Session::Milliseconds Session::step() {
  const auto now = now_steady();
  if (nvml_ && must_reopen(now)) {
    log::info("reopening the NVML session", {});
    close();
    next_open_ = now;
  }
  if (!nvml_) {
    if (now < next_open_) {
      return until(next_open_, now);
    }
    open();
    publish();
    return Milliseconds(0);
  }
  if (now >= next_links_) {
    if (const auto status = discover_gpus(); !status) {
      problem_ = status.error().text();
      close();
      publish();
      return Milliseconds(0);
    }
    renew_events();
  }
  if (now >= next_probe_) {
    probe_all();
  }
  const Milliseconds pause = wait_for_events(now_steady());
  publish();
  return pause;
}

void Session::open() {
  const auto now = now_steady();
  next_open_ = now + options_.retry;
  const std::string path = options_.library();
  auto library = NvmlLibrary::open(path);
  if (!library) {
    problem_ = library.error().text();
    return;
  }
  Nvml nvml(std::move(*library), *monitor_);
  if (const auto status = nvml.init(); !status) {
    problem_ = status.error().text();
    return;
  }
  if (path != library_) {
    library_ = path;
    log::info("NVML library opened", {{"path", path}});
  }
  nvml_.emplace(std::move(nvml));
  opened_ = now;
  pci_devices_ = sysfs_.nvidia_devices();
  if (const auto status = discover_gpus(); !status) {
    problem_ = status.error().text();
    close();
    return;
  }
  problem_.clear();
  watch_events();
  probe_all();
}

void Session::close() {
  if (!nvml_) {
    return;
  }
  if (events_ != nullptr) {
    read_events(events_, Milliseconds(0));
    nvml_->free_event_set(events_);
    events_ = nullptr;
  }
  forget_handles();
  nvml_->shutdown();
  nvml_.reset();
}

void Session::forget_handles() {
  for (GpuDetails& details : discovery_.details) {
    details.handle = nullptr;
  }
}

bool Session::must_reopen(Clock::Steady now) {
  // Check for new GPUs only as often as GPUs are probed: listing the directory is the most
  // expensive part of a step.
  if (now >= next_probe_ && sysfs_.nvidia_devices() != pci_devices_) {
    return true;
  }
  const auto& gpus = discovery_.inventory.gpus;
  std::vector<std::string> silent = discovery_.problems;
  std::size_t known_silent = 0;
  for (const alloc::Gpu& gpu : gpus) {
    const auto health = health_.find(gpu.uuid);
    if (health != health_.end() && !health->second.answers()) {
      silent.push_back(gpu.uuid);
      ++known_silent;
    }
  }
  return pace_.due(std::move(silent), known_silent == gpus.size(), now - opened_);
}

Status Session::discover_gpus() {
  next_links_ = now_steady() + options_.links_every;
  const alloc::Inventory before = discovery_.inventory;
  discovery_ = TRY(discover(*nvml_, sysfs_, options_.discovery, before));
  for (const alloc::Gpu& gpu : discovery_.inventory.gpus) {
    ever_.insert_or_assign(gpu.uuid, gpu);
  }
  return {};
}

void Session::probe_all() {
  const auto now = now_steady();
  next_probe_ = now + options_.probe_every;
  for (std::size_t i = 0; i < discovery_.inventory.gpus.size(); ++i) {
    probe(i, now);
  }
  if (more_answer_now()) {
    next_links_ = now;
  }
}

// Returns whether a GPU that did not answer during the last discovery answers again.
bool Session::more_answer_now() {
  const auto answering = std::ranges::count_if(
      discovery_.details, [](const GpuDetails& details) { return details.handle != nullptr; });
  const bool all = static_cast<std::size_t>(answering) == discovery_.details.size();
  if (all && discovery_.problems.empty()) {
    return false;
  }
  std::ptrdiff_t now_answering = 0;
  const unsigned count = nvml_->count().value_or(0);
  for (unsigned index = 0; index < std::min<unsigned>(count, alloc::Inventory::kMaxGpus); ++index) {
    const auto handle = nvml_->device(index);
    now_answering += handle && nvml_->memory(*handle) ? 1 : 0;
  }
  return now_answering > answering;
}

void Session::probe(std::size_t gpu, Clock::Steady now) {
  const alloc::Gpu& row = discovery_.inventory.gpus[gpu];
  GpuDetails& details = discovery_.details[gpu];
  Probe result;
  if (details.handle == nullptr) {
    result.failure = row.unhealthy;
  } else if (const auto memory = nvml_->memory(details.handle); !memory) {
    result.failure = memory.error().reason();
    result.lost = memory.error().code == abi::kGpuIsLost || memory.error().code == abi::kResetRequired;
  } else {
    if (const auto action = nvml_->recovery_action(details.handle)) {
      result.recovery_action = *action;
    }
    if (const auto errors = nvml_->uncorrected_ecc(details.handle)) {
      result.uncorrected_ecc = *errors;
    }
    result.row_remapping_failed = nvml_->row_remapping_failed(details.handle).value_or(false);
    details.unusable = unusable_reason(*nvml_, details.handle);
  }
  health_of(row.uuid).on_probe(result, now);
}

HealthTracker& Session::health_of(const std::string& uuid) {
  return health_.try_emplace(uuid, options_.health).first->second;
}

Session::Milliseconds Session::wait_for_events(Clock::Steady now) {
  const Milliseconds pause =
      std::min({options_.event_wait, until(next_probe_, now), until(next_links_, now)});
  if (events_ == nullptr) {
    return pause;
  }
  if (!read_events(events_, pause)) {
    // The wait fails when a GPU is lost; probe all GPUs to find out which one. The pause prevents a
    // busy loop if the wait fails every time.
    next_probe_ = now;
    return options_.event_wait;
  }
  return Milliseconds(0);
}

DriverState Session::current_state() const {
  DriverState state;
  state.ready = nvml_.has_value();
  state.problem = state.ready ? "" : problem_;
  state.inventory = discovery_.inventory;
  state.cuda = discovery_.cuda;
  state.problems = discovery_.problems;
  if (nvml_) {
    state.missing_functions = nvml_->library().missing();
  }
  for (std::size_t i = 0; i < state.inventory.gpus.size(); ++i) {
    alloc::Gpu& gpu = state.inventory.gpus[i];
    state.compute.push_back(discovery_.details[i].compute);
    const auto health = health_.find(gpu.uuid);
    gpu.unhealthy = !state.ready                                          ? problem_
                    : health == health_.end() || health->second.healthy() ? discovery_.details[i].unusable
                                                                          : health->second.reason();
    gpu.unhealthy.resize(std::min(gpu.unhealthy.size(), kReasonBytes));
  }
  for (const auto& [uuid, gpu] : ever_) {
    if (!state.inventory.find_uuid(uuid)) {
      state.gone.push_back(gpu);
      state.gone.back().unhealthy = "the driver does not list this GPU any more";
    }
  }
  for (const auto& [key, count] : xids_) {
    state.xids.push_back(count);
  }
  return state;
}

void Session::publish() {
  DriverState state = current_state();
  state.version = published_.version;
  if (state.version > 0 && state == published_) {
    return;
  }
  ++state.version;
  for (const alloc::Gpu& gpu : state.inventory.gpus) {
    const auto before = published_.inventory.find_uuid(gpu.uuid);
    const std::string was = before ? published_.inventory.gpus[*before].unhealthy : "";
    if (gpu.unhealthy != was) {
      gpu.healthy()
          ? log::info("GPU healthy again", {{"gpu", gpu.uuid}, {"index", gpu.index}})
          : log::warn("GPU unhealthy", {{"gpu", gpu.uuid}, {"index", gpu.index}, {"reason", gpu.unhealthy}});
    }
  }
  if (!state.ready && state.problem != published_.problem) {
    log::warn("NVIDIA driver not ready", {{"reason", state.problem}});
  }
  for (const std::string& problem : state.problems) {
    if (std::ranges::find(published_.problems, problem) == published_.problems.end()) {
      log::warn("GPU not listed", {{"reason", problem}});
    }
  }
  published_ = state;
  publish_(std::move(state));
}

Result<abi::Device> Session::handle_of(const std::string& uuid) const {
  if (!nvml_) {
    return fail(ErrorCode::kUnavailable, problem_);
  }
  if (!discovery_.inventory.find_uuid(uuid)) {
    return fail(ErrorCode::kNotFound, fmt::format("there is no GPU {} on this node", uuid));
  }
  const abi::Device handle = discovery_.handle(uuid);
  if (handle == nullptr) {
    return fail(ErrorCode::kUnavailable, fmt::format("GPU {} does not answer", uuid));
  }
  return handle;
}

Result<std::vector<GpuProcess>> Session::processes(const std::string& uuid) {
  const abi::Device handle = TRY(handle_of(uuid));
  auto processes = nvml_->processes(handle);
  if (!processes) {
    return fail(processes.error().error().context("processes of GPU " + uuid));
  }
  if (const auto busy = nvml_->process_utilization(handle, Clock::real().wall() - kBusyWindow)) {
    for (GpuProcess& process : *processes) {
      const auto found = busy->find(process.pid);
      process.busy_percent = found == busy->end() ? 0 : found->second;
    }
  }
  return std::move(*processes);
}

Result<GpuUsage> Session::usage(const std::string& uuid) {
  const abi::Device handle = TRY(handle_of(uuid));
  const auto memory = nvml_->memory(handle);
  if (!memory) {
    return fail(memory.error().error().context("memory of GPU " + uuid));
  }
  GpuUsage usage{.memory = *memory, .busy_percent = {}};
  if (const auto utilization = nvml_->utilization(handle)) {
    usage.busy_percent = utilization->gpu;
  }
  return usage;
}

std::vector<GpuSample> Session::sample() {
  std::vector<GpuSample> samples;
  for (const alloc::Gpu& gpu : discovery_.inventory.gpus) {
    samples.push_back({.uuid = gpu.uuid, .usage = usage(gpu.uuid), .processes = processes(gpu.uuid)});
  }
  return samples;
}

}  // namespace tessera::gpu
