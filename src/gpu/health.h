// gpu/health.h
//
// Whether one GPU may be given to pods, out of the driver's events and of regular looks at it. Pure: time is
// handed in, one thread.
//
// A GPU falls ill at once: by an XID that is not ignored, an uncorrectable memory error, a failed row
// remapping, a recovery action that the driver asks for, or because it does not answer. It comes back when
// the driver says so:
//   - the GPU answers, and
//   - the driver asks for no recovery action (field 230, drivers of 2025 and later), a little after the last
//     event so that an error in a loop does not flap; or, where the driver cannot say,
//   - a while has passed without another event: `quiet` for a recoverable error, `quiet_fatal` for others; or
//   - it has been reset: it was lost, or away for several looks, and answers again, or its error counter
//     started anew. One look that fails is no reset.
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
  std::chrono::milliseconds settle{2'000};         // with the driver's word
  std::chrono::milliseconds quiet{30'000};         // without, after a recoverable error
  std::chrono::milliseconds quiet_fatal{300'000};  // without, after a fatal one
};

// What one look at a GPU told.
struct Probe {
  std::string failure;                             // why it does not answer; empty when it does
  bool lost = false;                               // the driver says that only a reset brings it back
  std::optional<std::uint32_t> recovery_action{};  // abi::RecoveryAction; nothing: this driver cannot say
  std::optional<std::uint64_t> uncorrected_ecc{};  // since the driver was loaded
  bool row_remapping_failed = false;
};

class HealthTracker {
 public:
  explicit HealthTracker(const HealthRules& rules) : rules_(&rules) {}

  // What the driver reported. Gives back the class under which it was taken.
  XidClass on_xid(std::uint64_t xid, Clock::Steady now);
  void on_uncorrectable_memory_error(Clock::Steady now);

  // Why it was ill when a process before this one last looked, as reason() told: an event that is behind it
  // is taken as one of now.
  void remember(const std::string& reason, Clock::Steady now);

  void on_probe(const Probe& probe, Clock::Steady now);

  // Why it must not be used; empty when it is well. Short: it stands in the node's inventory.
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] bool well() const { return reason().empty(); }
  // Whether it answered the last look.
  [[nodiscard]] bool answers() const { return last_.failure.empty(); }

 private:
  void fall_ill(std::string cause, XidClass severity, Clock::Steady now);
  [[nodiscard]] bool rested(Clock::Steady now) const;

  const HealthRules* rules_;
  Probe last_;
  bool lost_ = false;    // since it last answered
  unsigned missed_ = 0;  // looks in a row that failed
  bool probed_ = false;
  std::string cause_;  // the event behind the illness; empty when there is none
  XidClass severity_ = XidClass::kIgnored;
  Clock::Steady last_event_;
};

// "GPU reset", "node reboot", ...
std::string describe_recovery_action(std::uint32_t action);

}  // namespace tessera::gpu
