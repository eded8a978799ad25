// Events of the driver: which GPUs are watched, and what is made of what comes.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "gpu/session.h"

namespace tessera::gpu {

namespace {

constexpr std::uint64_t kWantedEvents = abi::kEventXid | abi::kEventDoubleBitEcc | abi::kEventMigConfig |
                                        abi::kEventFatalPoison | abi::kEventGpuUnavailable |
                                        abi::kEventRecoveryAction;
// A GPU in a bad way sends events by the hundred; between two batches other work gets its turn.
constexpr int kEventsAtOnce = 64;
constexpr std::uint64_t kNvlinkXid = 74;

}  // namespace

// Sees to it that the GPUs of now are watched. What came meanwhile waits in the set of before, so that one
// goes last. An event of the moment in which there are both may be counted twice.
void Session::renew_events() {
  const abi::EventSet before = std::exchange(events_, nullptr);
  watch_events();
  if (before != nullptr) {
    read_events(before, Milliseconds(0));
    nvml_->free_event_set(before);
  }
}

// A set that waits for the events of all GPUs that have some.
void Session::watch_events() {
  unwatched_.clear();
  // A registration that fails in an unknown way spoils the set: begin again without that GPU.
  for (std::size_t attempt = 0; attempt <= discovery_.inventory.gpus.size(); ++attempt) {
    const auto set = nvml_->create_event_set();
    if (!set) {
      log::warn("no health events from the NVIDIA driver", {{"why", set.error().text()}});
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

// False when the set is spoiled.
bool Session::register_all() {
  bool any = false;
  for (std::size_t i = 0; i < discovery_.inventory.gpus.size(); ++i) {
    const std::string& uuid = discovery_.inventory.gpus[i].uuid;
    if (discovery_.facts[i].handle == nullptr || std::ranges::find(unwatched_, uuid) != unwatched_.end()) {
      continue;
    }
    const auto status = nvml_->register_events(discovery_.facts[i].handle, kWantedEvents, events_);
    if (status) {
      any = true;
      continue;
    }
    unwatched_.push_back(uuid);
    log::debug("no health events from GPU", {{"uuid", uuid}, {"why", status.error().text()}});
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

// Waits for the first event, and takes what there is then. False when the driver cannot say.
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
  const auto facts = std::ranges::find(discovery_.facts, event.device, &GpuFacts::handle);
  if (event.device == nullptr || facts == discovery_.facts.end()) {
    log::warn("event of a GPU that is not known", {{"type", event.type}, {"data", event.data}});
    next_probe_ = now;
    return;
  }
  const std::string& uuid =
      discovery_.inventory.gpus[static_cast<std::size_t>(facts - discovery_.facts.begin())].uuid;
  if ((event.type & abi::kEventXid) != 0) {
    const XidClass taken_as = health_of(uuid).on_xid(event.data, now);
    count_xid(uuid, event.data, taken_as);
    if (event.data == kNvlinkXid) {
      next_links_ = now;
    }
  }
  if ((event.type & (abi::kEventDoubleBitEcc | abi::kEventFatalPoison)) != 0) {
    health_of(uuid).on_uncorrectable_memory_error(now);
    log::warn("uncorrectable memory error", {{"gpu", uuid}});
  }
  if ((event.type & (abi::kEventMigConfig | abi::kEventGpuUnavailable | abi::kEventRecoveryAction)) != 0) {
    next_probe_ = now;
  }
}

void Session::count_xid(const std::string& uuid, std::uint64_t xid, XidClass taken_as) {
  // Bounded: what a broken driver makes up is not kept.
  constexpr std::size_t kMostKinds = 4096;
  if (xids_.size() < kMostKinds || xids_.contains({uuid, xid})) {
    XidCount& count = xids_[{uuid, xid}];
    count = {.uuid = uuid, .xid = xid, .taken_as = taken_as, .count = count.count + 1};
  }
  log::info("XID", {{"gpu", uuid},
                    {"xid", xid},
                    {"means", describe_xid(xid)},
                    {"ignored", taken_as == XidClass::kIgnored}});
}

}  // namespace tessera::gpu
