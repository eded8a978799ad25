// webhook/config.h
//
// The configuration of the webhook. A later source overrides an earlier one:
//
//   defaults < YAML file (--config) < flags
//
// docs/reference.md lists every setting. A plain value, valid once check() has accepted it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "alloc/names.h"
#include "base/log.h"
#include "base/result.h"

namespace tessera::webhook {

struct Config {
  // Address for the calls of the API server, with TLS. Control planes of clouds can usually connect
  // to this port of any node or pod, because kubelet uses the same port.
  std::string address = "0.0.0.0";
  std::uint16_t port = 10250;
  // A separate port without TLS that serves only health, metrics and version.
  std::string health_address = "0.0.0.0";
  std::uint16_t health_port = 39996;

  std::string kubeconfig;  // empty: $KUBECONFIG, ~/.kube/config, or the pod's service account
  log::Options log;

  alloc::ResourceNames::Config resources;
  std::string scheduler_name = "tessera-scheduler";  // the schedulerName that pods get

  // PEM files that another program renews. Both empty: the webhook creates its certificates.
  std::string tls_certificate;
  std::string tls_key;

  // Settings of the certificates that the webhook creates (keeper.h).
  std::string namespace_name;  // empty: the namespace of the pod
  std::string service = "tessera-webhook";
  std::string secret = "tessera-webhook-tls";
  std::string configuration = "tessera-scheduler-name";
  std::chrono::milliseconds lifetime{std::chrono::hours(2160)};
  std::chrono::milliseconds settle{std::chrono::minutes(1)};
  std::chrono::milliseconds check_every{std::chrono::minutes(1)};

  std::size_t max_connections = 256;
  std::size_t max_body_bytes = 4U << 20U;

  // Returns whether the certificates are in files that another program renews.
  [[nodiscard]] bool has_own_files() const { return !tls_certificate.empty(); }
};

// Overwrites the settings of `config` that `yaml` contains. Errors begin with "NAME:LINE:COLUMN:".
Status apply_yaml(std::string_view yaml, const std::string& name, Config& config);

// Validates the complete configuration. Errors begin with the path of the setting and a colon.
Status check(const Config& config);

}  // namespace tessera::webhook
