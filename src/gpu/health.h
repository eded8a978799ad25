// gpu/health.h
//
// Tracks whether one GPU is healthy, from driver events and regular probes. Pure: the caller passes
// the time. Not thread-safe.
//
// A GPU becomes unhealthy immediately after an XID that is not ignored, an uncorrectable memory
// error, a failed row remapping, a recovery action that the driver requests, or a probe that it does not
// answer. It becomes healthy again when it answers, the driver requests no recovery action, and at
// least one of these is true:
//   - the driver can report recovery actions (field 230, drivers of 2025 and later), and `settle`
//     has passed since the last event, so that repeated errors do not make the GPU flap;
//   - the driver cannot report them, and no event occurred for `quiet` (recoverable errors) or
//     `quiet_fatal` (all others);
//   - the GPU was reset: it was lost or missed several probes and answers again, or its error
//     counter restarted. A single failed probe does not count as a reset.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "gpu/xid.h"

namespace tessera::gpu {

struct HealthRules {
  XidRules xids;
  // The time without events after which an unhealthy GPU becomes healthy again: `settle` if the
  // driver reports recovery actions, otherwise `quiet` after a recoverable error and `quiet_fatal`
  // after a fatal one.
  std::chrono::milliseconds settle{2'000};
  std::chrono::milliseconds quiet{30'000};
  std::chrono::milliseconds quiet_fatal{300'000};
};

// The result of one probe of a GPU.
struct Probe {
  std::string failure;                             // why it does not answer; empty if it does
  bool lost = false;                               // the GPU needs a reset to come back
  std::optional<std::uint32_t> recovery_action{};  // abi::RecoveryAction; empty: not supported
  std::optional<std::uint64_t> uncorrected_ecc{};  // since the driver was loaded
  bool row_remapping_failed = false;
};

class HealthTracker {
 public:
  explicit HealthTracker(const HealthRules& rules) : rules_(&rules) {}

  // Handles an XID event. Returns the class of the XID.
  XidClass on_xid(std::uint64_t xid, Clock::Steady now);
  void on_uncorrectable_memory_error(Clock::Steady now);

  // Restores the health after a restart of the process. `reason` is the reason() of the previous
  // process. If the reason was an event, the event counts as if it had occurred now.
  void restore(const std::string& reason, Clock::Steady now);

  void on_probe(const Probe& probe, Clock::Steady now);

  // Returns why the GPU is unhealthy, or "" if it is healthy. The text is short, because it is part
  // of the node's inventory.
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] bool healthy() const { return reason().empty(); }
  // Returns whether the GPU answered the last probe.
  [[nodiscard]] bool answers() const { return last_.failure.empty(); }

 private:
  void mark_unhealthy(std::string cause, XidClass severity, Clock::Steady now);
  [[nodiscard]] bool quiet_long_enough(Clock::Steady now) const;

  const HealthRules* rules_;
  Probe last_;
  bool lost_ = false;    // a probe since the last answer reported the GPU as lost
  unsigned missed_ = 0;  // failed probes in a row
  bool probed_ = false;
  std::string cause_;  // the event that made it unhealthy; empty if there is none
  XidClass severity_ = XidClass::kIgnored;
  Clock::Steady last_event_;
};

// Returns "a GPU reset", "a node reboot", ...
std::string describe_recovery_action(std::uint32_t action);

}  // namespace tessera::gpu
