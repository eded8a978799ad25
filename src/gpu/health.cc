#include "gpu/health.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "gpu/nvml_abi.h"

namespace tessera::gpu {

namespace {

constexpr unsigned kMissedProbes = 3;  // failed probes in a row after which the GPU counts as gone
constexpr std::string_view kMemoryError = "uncorrectable memory error (ECC)";
constexpr std::string_view kXid = "XID ";

}  // namespace

XidClass HealthTracker::on_xid(std::uint64_t xid, Clock::Steady now) {
  const XidClass severity = rules_->xids.classify(xid);
  if (severity != XidClass::kIgnored) {
    mark_unhealthy(describe_xid(xid), severity, now);
  }
  return severity;
}

void HealthTracker::on_uncorrectable_memory_error(Clock::Steady now) {
  mark_unhealthy(std::string(kMemoryError), XidClass::kFatal, now);
}

void HealthTracker::restore(const std::string& reason, Clock::Steady now) {
  if (reason.starts_with(kMemoryError)) {
    on_uncorrectable_memory_error(now);
    return;
  }
  std::uint64_t xid = 0;
  if (reason.starts_with(kXid) &&
      std::from_chars(reason.data() + kXid.size(), reason.data() + reason.size(), xid).ec == std::errc()) {
    on_xid(xid, now);
  }
}

void HealthTracker::mark_unhealthy(std::string cause, XidClass severity, Clock::Steady now) {
  last_event_ = now;
  // Keep the worst cause for the operator: after XID 79, a reset reports a dozen minor XIDs.
  if (cause_.empty() || severity >= severity_) {
    cause_ = std::move(cause);
    severity_ = severity;
  }
}

void HealthTracker::on_probe(const Probe& probe, Clock::Steady now) {
  const bool answers = probe.failure.empty();
  const bool came_back = answers && (lost_ || missed_ >= kMissedProbes);
  lost_ = !answers && (lost_ || probe.lost);
  missed_ = answers ? 0 : missed_ + 1;
  const std::uint64_t errors_before = last_.uncorrected_ecc.value_or(0);
  const std::uint64_t errors = probe.uncorrected_ecc.value_or(errors_before);
  const bool counter_restarted = answers && errors < errors_before;

  // Ignore errors that occurred before the first probe. If they still mattered, the driver would
  // request a recovery action.
  if (probed_ && errors > errors_before) {
    on_uncorrectable_memory_error(now);
  }
  last_ = probe;
  last_.uncorrected_ecc = errors;
  probed_ = true;
  if (cause_.empty() || !answers ||
      probe.recovery_action.value_or(abi::kRecoveryNone) != abi::kRecoveryNone) {
    return;
  }
  if (came_back || counter_restarted || quiet_long_enough(now)) {
    cause_.clear();
    severity_ = XidClass::kIgnored;
  }
}

bool HealthTracker::quiet_long_enough(Clock::Steady now) const {
  std::chrono::milliseconds needed = rules_->settle;
  if (!last_.recovery_action) {
    needed = severity_ == XidClass::kFatal ? rules_->quiet_fatal : rules_->quiet;
  }
  return now - last_event_ >= needed;
}

std::string HealthTracker::reason() const {
  if (!last_.failure.empty()) {
    return cause_.empty() ? last_.failure : fmt::format("{}; {}", cause_, last_.failure);
  }
  if (last_.row_remapping_failed) {
    return "row remapping failed: the GPU memory is worn out, replace the GPU";
  }
  const std::uint32_t action = last_.recovery_action.value_or(abi::kRecoveryNone);
  if (action != abi::kRecoveryNone) {
    const std::string asks = fmt::format("the driver asks for {}", describe_recovery_action(action));
    return cause_.empty() ? asks : fmt::format("{}; {}", cause_, asks);
  }
  return cause_;
}

std::string describe_recovery_action(std::uint32_t action) {
  switch (action) {
    case abi::kRecoveryNone:
      return "nothing";
    case abi::kRecoveryGpuReset:
      return "a GPU reset";
    case abi::kRecoveryNodeReboot:
      return "a node reboot";
    case abi::kRecoveryDrainP2p:
      return "draining of peer-to-peer traffic";
    case abi::kRecoveryDrainAndReset:
      return "draining and a GPU reset";
    case abi::kRecoveryImex:
      return "recovery of IMEX";
    default:
      return fmt::format("recovery action {}", action);
  }
}

}  // namespace tessera::gpu
