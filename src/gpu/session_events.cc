// Driver events of a Session: registration and handling.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "gpu/session.h"

namespace tessera::gpu {

namespace {

constexpr std::uint64_t kWantedEvents = abi::kEventXid | abi::kEventDoubleBitEcc | abi::kEventMigConfig |
                                        abi::kEventFatalPoison | abi::kEventGpuUnavailable |
                                        abi::kEventRecoveryAction;
// A failing GPU sends hundreds of events. They are handled in batches, with other work in between.
constexpr int kEventsAtOnce = 64;
constexpr std::uint64_t kNvlinkXid = 74;

}  // namespace

// Replaces the event set by one for the current GPUs. Creates the new set first, then reads the
// events that are still in the old set and frees it. An event that occurs while both sets exist may
// be counted twice.
void Session::renew_events() {
  const abi::EventSet before = std::exchange(events_, nullptr);
  watch_events();
  if (before != nullptr) {
    read_events(before, Milliseconds(0));
    nvml_->free_event_set(before);
  }
}

// Creates an event set for all GPUs that support events.
void Session::watch_events() {
  unwatched_.clear();
  // If the registration of a GPU fails with an unknown error, the set becomes unusable. Then try
  // again with a new set and without that GPU.
  for (std::size_t attempt = 0; attempt <= discovery_.inventory.gpus.size(); ++attempt) {
    const auto set = nvml_->create_event_set();
    if (!set) {
      log::warn("health events unavailable", {{"error", set.error().text()}});
      return;
    }
    events_ = *set;
    if (register_all()) {
      return;
    }
    nvml_->free_event_set(events_);
    events_ = nullptr;
  }
}

// Registers all GPUs that answer and are not in unwatched_ with events_. Returns false if the set
// became unusable. Frees the set if no GPU supports events.
bool Session::register_all() {
  bool any = false;
  for (std::size_t i = 0; i < discovery_.inventory.gpus.size(); ++i) {
    const std::string& uuid = discovery_.inventory.gpus[i].uuid;
    if (discovery_.details[i].handle == nullptr || std::ranges::find(unwatched_, uuid) != unwatched_.end()) {
      continue;
    }
    const auto status = nvml_->register_events(discovery_.details[i].handle, kWantedEvents, events_);
    if (status) {
      any = true;
      continue;
    }
    unwatched_.push_back(uuid);
    log::debug("health events of GPU unavailable", {{"gpu", uuid}, {"error", status.error().text()}});
    if (status.error().code == abi::kUnknown) {
      return false;
    }
  }
  if (!any) {
    nvml_->free_event_set(events_);
    events_ = nullptr;
  }
  return true;
}

// Waits for the first event and handles all pending events. Returns false if the driver fails.
bool Session::read_events(abi::EventSet set, Milliseconds wait) {
  for (int i = 0; set != nullptr && i < kEventsAtOnce; ++i) {
    const auto event = nvml_->wait_for_event(set, static_cast<unsigned>(wait.count()));
    if (!event) {
      return event.error().code == abi::kTimeout;
    }
    on_event(*event);
    wait = Milliseconds(0);
  }
  return true;
}

void Session::on_event(const abi::EventData& event) {
  const auto now = Clock::real().now();
  const auto details = std::ranges::find(discovery_.details, event.device, &GpuDetails::handle);
  if (event.device == nullptr || details == discovery_.details.end()) {
    log::warn("event of an unknown GPU", {{"type", event.type}, {"data", event.data}});
    next_probe_ = now;
    return;
  }
  const std::string& uuid =
      discovery_.inventory.gpus[static_cast<std::size_t>(details - discovery_.details.begin())].uuid;
  if ((event.type & abi::kEventXid) != 0) {
    const XidClass severity = health_of(uuid).on_xid(event.data, now);
    count_xid(uuid, event.data, severity);
    if (event.data == kNvlinkXid) {
      next_links_ = now;
    }
  }
  if ((event.type & (abi::kEventDoubleBitEcc | abi::kEventFatalPoison)) != 0) {
    health_of(uuid).on_uncorrectable_memory_error(now);
    log::warn("uncorrectable memory error reported", {{"gpu", uuid}});
  }
  if ((event.type & (abi::kEventMigConfig | abi::kEventGpuUnavailable | abi::kEventRecoveryAction)) != 0) {
    next_probe_ = now;
  }
}

void Session::count_xid(const std::string& uuid, std::uint64_t xid, XidClass severity) {
  // Bounded, in case a broken driver reports random numbers.
  constexpr std::size_t kMaxKinds = 4096;
  if (xids_.size() < kMaxKinds || xids_.contains({uuid, xid})) {
    XidCount& count = xids_[{uuid, xid}];
    count = {.uuid = uuid, .xid = xid, .severity = severity, .count = count.count + 1};
  }
  log::info("XID reported", {{"gpu", uuid},
                             {"xid", xid},
                             {"description", describe_xid(xid)},
                             {"ignored", severity == XidClass::kIgnored}});
}

}  // namespace tessera::gpu
