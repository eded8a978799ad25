#include "sim_driver.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/file.h"
#include "settings.h"

namespace tessera::nvml_sim {

namespace {

// How often a blocked call reads the control file. Programs wait for events all the time, so
// polling must not dominate their CPU time.
constexpr auto kPoll = std::chrono::milliseconds(25);

// The library has no log, so errors go to standard error.
void print_error(const Error& error) {
  std::fprintf(stderr, "simulated libnvidia-ml.so.1: %s\n", error.text().c_str());
}

FileStamp stamp_of(const std::string& path) {
  struct stat status{};
  if (path.empty() || ::stat(path.c_str(), &status) != 0) {
    return {};
  }
  return {.inode = status.st_ino,
          .bytes = status.st_size,
          .seconds = status.st_mtim.tv_sec,
          .nanoseconds = status.st_mtim.tv_nsec};
}

}  // namespace

std::uint64_t SimGpu::used_bytes() const {
  std::uint64_t mib = 0;
  for (const SimProcess& process : control.processes) {
    mib += process.memory_mib;
  }
  const std::uint64_t room = described->memory_mib - described->reserved_mib;
  return std::min(mib, room) << 20U;
}

std::vector<std::vector<SimLink>> links_of(const topology::Topology& topology) {
  std::vector<std::vector<SimLink>> links(topology.size());
  for (unsigned gpu = 0; gpu < topology.size(); ++gpu) {
    unsigned to_switches = 0;
    for (unsigned peer = 0; peer < topology.size(); ++peer) {
      if (peer == gpu) {
        continue;
      }
      const topology::Link& link = topology.link(gpu, peer);
      if (link.nvswitch) {
        to_switches = std::max<unsigned>(to_switches, link.nvlinks);
      } else {
        links[gpu].insert(links[gpu].end(), link.nvlinks, SimLink{.peer = peer});
      }
    }
    links[gpu].insert(links[gpu].end(), to_switches, SimLink{});
  }
  return links;
}

// Another thread may still be blocked in a call while the process exits.
SimDriver::~SimDriver() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

SimDriver& SimDriver::instance() {
  static SimDriver driver;
  return driver;
}

Status SimDriver::load() {
  const Settings settings = TRY(read_settings());
  machine_ = TRY(sim::load_machine(settings.machine));
  node_ = settings.node;
  control_path_ = settings.control;
  control_stamp_ = {};
  control_ = {};
  links_ = links_of(machine_->topology);
  return {};
}

void SimDriver::refresh() {
  if (!machine_) {
    return;
  }
  const FileStamp stamp = stamp_of(control_path_);
  if (stamp == control_stamp_) {
    return;
  }
  control_stamp_ = stamp;
  if (control_stamp_ == FileStamp{}) {
    control_ = {};
    return;
  }
  const auto text = read_file(control_path_, 1U << 20U);
  auto control = text ? Control::parse(*text, static_cast<unsigned>(machine_->gpus.size()))
                      : Result<Control>(tl::unexpected(text.error()));
  if (!control) {
    // An editor may be in the middle of a write. Keep the previous control.
    print_error(std::move(control).error().context(control_path_));
    return;
  }
  control_ = std::move(*control);
}

void SimDriver::enumerate() {
  order_.clear();
  const auto add = [this](unsigned position) {
    if (!control_.removed.contains(position) && std::ranges::find(order_, position) == order_.end()) {
      order_.push_back(position);
    }
  };
  for (const unsigned position : control_.order) {
    add(position);
  }
  for (unsigned position = 0; position < machine_->gpus.size(); ++position) {
    add(position);
  }
  lost_at_init_.clear();
  for (const auto& [position, gpu] : control_.gpus) {
    if (gpu.lost) {
      lost_at_init_.insert(position);
    }
  }
}

abi::Return SimDriver::init(std::string_view function) {
  {
    const std::lock_guard lock(mutex_);
    if (sessions_ == 0) {
      if (const auto loaded = load(); !loaded) {
        print_error(loaded.error());
        machine_.reset();
        return abi::kDriverNotLoaded;
      }
    }
  }
  if (const abi::Return code = enter(function, false); code != abi::kSuccess) {
    return code;
  }
  const std::lock_guard lock(mutex_);
  if (sessions_ == 0) {
    if (control_.init != abi::kSuccess) {
      return control_.init;
    }
    enumerate();
  }
  ++sessions_;
  return abi::kSuccess;
}

abi::Return SimDriver::shutdown() {
  const std::lock_guard lock(mutex_);
  if (sessions_ == 0) {
    return abi::kUninitialized;
  }
  if (--sessions_ == 0) {
    listeners_.clear();
  }
  return abi::kSuccess;
}

abi::Return SimDriver::enter(std::string_view function, bool needs_session) {
  const auto begun = std::chrono::steady_clock::now();
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (ended_ || (needs_session && sessions_ == 0)) {
        return abi::kUninitialized;
      }
      refresh();
      if (control_.missing.contains(function)) {
        return abi::kFunctionNotFound;
      }
      const auto slow = control_.slow.find(function);
      const auto needed = std::chrono::milliseconds(slow == control_.slow.end() ? 0 : slow->second);
      if (!control_.hang.contains(function) && std::chrono::steady_clock::now() - begun >= needed) {
        return abi::kSuccess;
      }
    }
    std::this_thread::sleep_for(kPoll);
  }
}

sim::Machine SimDriver::machine() {
  const std::lock_guard lock(mutex_);
  return *machine_;
}

unsigned SimDriver::count() {
  const std::lock_guard lock(mutex_);
  return static_cast<unsigned>(order_.size());
}

abi::Device SimDriver::handle(unsigned position) {
  return reinterpret_cast<abi::Device>(&handles_.at(position));
}

abi::Return SimDriver::handle_at(unsigned index, abi::Device* device) {
  const std::lock_guard lock(mutex_);
  if (index >= order_.size() || device == nullptr) {
    return abi::kInvalidArgument;
  }
  const unsigned position = order_[index];
  // A real driver returns no handle for a GPU that was lost before the session began.
  if (lost_at_init_.contains(position) && control_.gpu(position).lost) {
    return abi::kGpuIsLost;
  }
  *device = handle(position);
  return abi::kSuccess;
}

std::optional<unsigned> SimDriver::position_of(abi::Device device) const {
  const auto* address = reinterpret_cast<const char*>(device);
  for (const unsigned position : order_) {
    if (&handles_.at(position) == address) {
      return position;
    }
  }
  return std::nullopt;
}

SimGpu SimDriver::gpu_at(unsigned position) const {
  SimGpu gpu;
  gpu.position = position;
  gpu.index = static_cast<unsigned>(std::ranges::find(order_, position) - order_.begin());
  gpu.uuid = machine_->gpu_uuid(node_, position);
  gpu.described = &machine_->gpus[position];
  gpu.links = &links_[position];
  gpu.control = control_.gpu(position);
  constexpr unsigned kHopper = 4;
  for (unsigned peer = 0; peer < machine_->topology.size(); ++peer) {
    if (peer != position) {
      const topology::Link& link = machine_->topology.link(position, peer);
      gpu.nvlink_generation = std::max<unsigned>(gpu.nvlink_generation, link.generation);
      gpu.fabric = gpu.fabric || (link.nvswitch && link.generation >= kHopper);
    }
  }
  return gpu;
}

std::optional<SimGpu> SimDriver::gpu(abi::Device device) {
  const std::lock_guard lock(mutex_);
  const auto position = position_of(device);
  return position ? std::optional(gpu_at(*position)) : std::nullopt;
}

std::vector<SimGpu> SimDriver::gpus() {
  const std::lock_guard lock(mutex_);
  std::vector<SimGpu> gpus;
  for (const unsigned position : order_) {
    gpus.push_back(gpu_at(position));
  }
  return gpus;
}

abi::Return SimDriver::create_events(abi::EventSet* set) {
  const std::lock_guard lock(mutex_);
  auto listener = std::make_unique<Listener>();
  listener->seen = control_.events;
  *set = reinterpret_cast<abi::EventSet>(listener.get());
  listeners_.emplace(*set, std::move(listener));
  return abi::kSuccess;
}

abi::Return SimDriver::register_events(abi::Device device, std::uint64_t mask, abi::EventSet set) {
  const std::lock_guard lock(mutex_);
  const auto found = listeners_.find(set);
  const auto position = position_of(device);
  if (found == listeners_.end() || !position) {
    return abi::kInvalidArgument;
  }
  if (control_.gpu(*position).lost) {
    return abi::kGpuIsLost;
  }
  take_new_events(*found->second);
  found->second->masks[*position] |= mask;
  return abi::kSuccess;
}

// Queues the events that are new in the control file, from the first difference to the last read
// list.
void SimDriver::take_new_events(Listener& listener) const {
  const auto [old_end, new_begin] = std::ranges::mismatch(listener.seen, control_.events);
  for (auto event = new_begin; event != control_.events.end(); ++event) {
    const auto mask = listener.masks.find(event->gpu);
    if (mask != listener.masks.end() && (mask->second & event->type) != 0) {
      listener.pending.push_back(*event);
    }
  }
  listener.seen = control_.events;
}

abi::Return SimDriver::wait_for_event(abi::EventSet set, abi::EventData* data,
                                      std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (ended_) {
        return abi::kUninitialized;
      }
      const auto found = listeners_.find(set);
      if (found == listeners_.end() || data == nullptr) {
        return abi::kInvalidArgument;
      }
      refresh();
      Listener& listener = *found->second;
      take_new_events(listener);
      if (!listener.pending.empty()) {
        const SimEvent event = listener.pending.front();
        listener.pending.pop_front();
        *data = {.device = handle(event.gpu),
                 .type = event.type,
                 .data = event.data,
                 .gpu_instance = abi::kNoInstance,
                 .compute_instance = abi::kNoInstance};
        return abi::kSuccess;
      }
      for (const auto& [position, mask] : listener.masks) {
        if (control_.gpu(position).lost) {
          return abi::kGpuIsLost;
        }
      }
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return abi::kTimeout;
    }
    std::this_thread::sleep_for(
        std::min<std::chrono::steady_clock::duration>(kPoll, deadline - std::chrono::steady_clock::now()));
  }
}

abi::Return SimDriver::free_events(abi::EventSet set) {
  const std::lock_guard lock(mutex_);
  return listeners_.erase(set) == 1 ? abi::kSuccess : abi::kInvalidArgument;
}

}  // namespace tessera::nvml_sim
