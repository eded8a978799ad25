#include "extender/config.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/strings.h"

namespace tessera::extender {

void apply_environment(const daemon::Environment& environment, Config& config) {
  if (const auto port = environment("PORT")) {
    const std::optional<std::int64_t> number = parse_int(*port);
    if (number && *number > 0 && *number < 65536) {
      config.port = static_cast<std::uint16_t>(*number);
      // The manifest of the original sets PORT, and its Service connects to the pod's address.
      config.address = "0.0.0.0";
    }
  }
  // Ignore an invalid level, as the original does.
  if (const auto level = environment("LOG_LEVEL")) {
    config.log.level = log::parse_level(*level).value_or(config.log.level);
  }
}

Status check(const Config& config) {
  const auto wrong = [](std::string text) { return fail(ErrorCode::kInvalid, std::move(text)); };
  if (config.port == 0) {
    return wrong("listen: needs a port from 1 to 65535");
  }
  if (config.health_port == config.port) {
    return wrong(fmt::format("health: port {} is already used by listen", config.port));
  }
  if (config.tls_certificate.empty() != config.tls_key.empty()) {
    return wrong("tls: certificate and key must be set together");
  }
  if (!config.tls_client_ca.empty() && config.tls_certificate.empty()) {
    return wrong("tls: clientCA needs certificate and key");
  }
  TRY(alloc::ResourceNames::check(config.resources));
  if (!alloc::is_share_policy(config.share_policy)) {
    return wrong(fmt::format("policies.shared: \"{}\" is a policy for whole GPUs; use binpack, spread or fgd",
                             alloc::to_string(config.share_policy)));
  }
  if (alloc::is_share_policy(config.whole_policy)) {
    return wrong(fmt::format(
        "policies.whole: \"{}\" is a policy for shares of GPUs; use simple, static, prim, best_effort or "
        "ring",
        alloc::to_string(config.whole_policy)));
  }
  if (config.whole_policy == alloc::Policy::kStatic && config.static_sets == nullptr) {
    return wrong("policies.whole: \"static\" needs policies.staticSets, a table of sets");
  }
  if (config.score_step < 1 || config.score_step > 1'000'000) {
    return wrong("scores.step: must be a number from 1 to 1000000");
  }
  if (!(config.retry_period < config.renew_deadline && config.renew_deadline < config.lease_duration)) {
    return wrong("lease: retryPeriod < renewDeadline < duration must hold");
  }
  if (!config.scheduler_lease_name.empty() && config.attach != Attach::kSidecar) {
    return wrong(
        "schedulerLease: needs attach: sidecar; replicas behind a Service have a Lease of their own");
  }
  if (config.bind_timeout < std::chrono::milliseconds(100)) {
    return wrong("limits.bindTimeout: must be at least 100ms");
  }
  if (config.bind_timeout >= config.lease_duration - config.renew_deadline) {
    return wrong(
        "limits.bindTimeout: must be less than lease.duration - lease.renewDeadline, or a bind could be "
        "written after another replica has taken over");
  }
  return {};
}

std::vector<std::string> apply_reloadable(const Config& next, Config& running) {
  std::vector<std::string> need_restart;
  const auto require_same = [&](bool same, const char* name) {
    if (!same) {
      need_restart.emplace_back(name);
    }
  };
  require_same(next.attach == running.attach, "attach");
  require_same(next.address == running.address && next.port == running.port, "listen");
  require_same(next.health_address == running.health_address && next.health_port == running.health_port,
               "health");
  require_same(next.tls_certificate == running.tls_certificate && next.tls_key == running.tls_key &&
                   next.tls_client_ca == running.tls_client_ca,
               "tls");
  require_same(next.kubeconfig == running.kubeconfig, "kubeconfig");
  require_same(next.unit == running.unit, "unit");
  require_same(
      next.resources.prefix == running.resources.prefix && next.resources.whole == running.resources.whole,
      "resources");
  require_same(next.lease_name == running.lease_name && next.lease_namespace == running.lease_namespace &&
                   next.lease_duration == running.lease_duration &&
                   next.renew_deadline == running.renew_deadline && next.retry_period == running.retry_period,
               "lease");
  require_same(next.scheduler_lease_name == running.scheduler_lease_name &&
                   next.scheduler_lease_namespace == running.scheduler_lease_namespace,
               "schedulerLease");
  require_same(next.agent_selector == running.agent_selector, "agentSelector");
  require_same(next.bind_timeout == running.bind_timeout && next.binds_at_once == running.binds_at_once &&
                   next.max_body_bytes == running.max_body_bytes &&
                   next.max_connections == running.max_connections,
               "limits");
  running.share_policy = next.share_policy;
  running.whole_policy = next.whole_policy;
  running.static_sets = next.static_sets;
  running.typical_pods = next.typical_pods;
  running.score_step = next.score_step;
  running.log = next.log;
  return need_restart;
}

}  // namespace tessera::extender
