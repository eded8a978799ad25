#include "webhook/config.h"

#include <fmt/core.h>

#include "daemon/yaml_setting.h"

namespace tessera::webhook {

namespace {

using daemon::into;
using daemon::text_into;
using Setting = daemon::YamlSetting;

// The longest lifetime that browsers and some libraries accept for a certificate is shorter, but
// the API server accepts any.
constexpr std::chrono::hours kMaxLifetime{24 * 3650};

Status read_certificates(const Setting& setting, Config& config) {
  const auto duration = [](const Setting& one) { return one.duration(); };
  return setting.mapping({
      {"namespace", text_into(config.namespace_name)},
      {"service", text_into(config.service)},
      {"secret", text_into(config.secret)},
      {"configuration", text_into(config.configuration)},
      {"lifetime", into(config.lifetime, [](const Setting& one) { return one.duration(kMaxLifetime); })},
      {"settle", into(config.settle, duration)},
      {"checkEvery", into(config.check_every, duration)},
  });
}

Status read_all(const Setting& root, Config& config) {
  return root.mapping({
      {"listen", [&](const Setting& one) { return one.endpoint(config.address, config.port); }},
      {"health", [&](const Setting& one) { return one.endpoint(config.health_address, config.health_port); }},
      {"kubeconfig", text_into(config.kubeconfig)},
      {"log", daemon::log_into(config.log)},
      {"schedulerName", text_into(config.scheduler_name)},
      {"resources",
       [&](const Setting& resources) {
         return resources.mapping(
             {{"prefix", text_into(config.resources.prefix)}, {"whole", text_into(config.resources.whole)}});
       }},
      {"tls",
       [&](const Setting& tls) {
         return tls.mapping(
             {{"certificate", text_into(config.tls_certificate)}, {"key", text_into(config.tls_key)}});
       }},
      {"certificates", [&](const Setting& one) { return read_certificates(one, config); }},
      {"limits",
       [&](const Setting& limits) {
         return limits.mapping(
             {{"connections",
               into(config.max_connections, [](const Setting& one) { return one.number(8, 100'000); })},
              {"body", into(config.max_body_bytes, [](const Setting& one) { return one.bytes(64 << 20); })}});
       }},
  });
}

}  // namespace

Status apply_yaml(std::string_view yaml, const std::string& name, Config& config) {
  return daemon::read_settings(yaml, name, [&](const Setting& root) { return read_all(root, config); });
}

Status check(const Config& config) {
  const auto wrong = [](std::string text) { return fail(ErrorCode::kInvalid, std::move(text)); };
  if (config.port == 0) {
    return wrong("listen: needs a port from 1 to 65535");
  }
  if (config.health_port == config.port) {
    return wrong(fmt::format("health: port {} is already used by listen", config.port));
  }
  TRY(alloc::ResourceNames::check(config.resources));
  if (config.scheduler_name.empty()) {
    return wrong("schedulerName: must not be empty");
  }
  if (config.tls_certificate.empty() != config.tls_key.empty()) {
    return wrong("tls: certificate and key must be set together");
  }
  if (config.service.empty() || config.secret.empty() || config.configuration.empty()) {
    return wrong("certificates: service, secret and configuration must not be empty");
  }
  if (config.check_every < std::chrono::milliseconds(100)) {
    return wrong("certificates.checkEvery: must be at least 100ms");
  }
  if (config.settle + 2 * config.check_every > config.lifetime / 3) {
    return wrong(
        "certificates.lifetime: settle and two times checkEvery must fit into a third of it, or the old "
        "certificate could expire before all replicas use the new one");
  }
  return {};
}

}  // namespace tessera::webhook
