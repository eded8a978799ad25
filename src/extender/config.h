// extender/config.h
//
// Everything that can be set, from four places; a later one wins:
//
//   defaults < environment of the original (PORT, LOG_LEVEL) < YAML file (--config) < flags
//
// docs/reference.md lists every setting. A value; checked when it exists.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/names.h"
#include "alloc/request.h"
#include "alloc/units.h"
#include "base/log.h"
#include "base/result.h"
#include "topology/static_sets.h"

namespace tessera::extender {

// How kube-scheduler and the extender find each other.
enum class Attach {
  kSidecar,  // in one pod with a scheduler, whose leader election is ours as well
  kService,  // behind a Service: replicas elect a leader among themselves
};

// A pod that is expected again, for `fgd`.
struct TypicalPodSpec {
  std::uint32_t units = 0;  // of memory on each GPU; 0: whole GPUs
  std::uint16_t gpus = 1;
  std::int64_t cpu_milli = 0;
  std::vector<std::string> models;  // empty: any
  std::uint64_t count = 1;

  friend bool operator==(const TypicalPodSpec&, const TypicalPodSpec&) = default;
};

struct Config {
  Attach attach = Attach::kSidecar;

  // Where kube-scheduler calls. Nobody has to show who they are there, so by default only the own pod can.
  std::string address = "127.0.0.1";
  std::uint16_t port = 39999;
  // Health, metrics and version alone, for kubelet and Prometheus. Port 0: not served apart.
  std::string health_address = "0.0.0.0";
  std::uint16_t health_port = 0;
  // Serve HTTPS; with a CA only to clients that it has signed.
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_client_ca;

  std::string kubeconfig;  // empty: $KUBECONFIG, ~/.kube/config, or the pod's service account
  log::Options log;

  alloc::Unit unit;
  alloc::ResourceNames::Config resources;

  alloc::Policy share_policy = alloc::Policy::kBinpack;
  alloc::Policy whole_policy = alloc::Policy::kRing;
  std::shared_ptr<const topology::StaticSets> static_sets;  // may be null
  std::vector<TypicalPodSpec> typical_pods;
  // Between two ranks of prioritize. All scores of kube-scheduler's own plugins together are at most 1,200 by
  // default, and a rank counts ten times its number.
  std::int64_t score_step = 128;

  std::string lease_name = "tessera-extender";
  std::string lease_namespace;  // empty: that of the pod
  std::chrono::seconds lease_duration{15};
  std::chrono::seconds renew_deadline{10};
  // As the second scheduler's. A neighbour leads at most 1.2 of these after the Lease is free, and then reads
  // all pods; together that has to be below 5 s.
  std::chrono::seconds retry_period{1};

  // The Lease of the kube-scheduler beside a sidecar; both empty: not watched.
  std::string scheduler_lease_namespace;
  std::string scheduler_lease_name;

  std::chrono::milliseconds bind_timeout{4'000};
  std::size_t binds_at_once = 1024;
  std::size_t max_body_bytes = 64U << 20U;
  std::size_t max_connections = 1280;
};

using Environment = std::function<std::optional<std::string>(const char*)>;

// What the original was started with. A PORT that is no number is not used, as there; THREADNESS has no
// meaning any more and is taken without a word; KUBECONFIG is looked at by kube/access.h.
void apply_environment(const Environment& environment, Config& config);

// Reads `yaml` over what is there. Errors begin with "name:line:". Unknown keys are errors: a typing mistake
// must not silently mean the default. Paths in it are relative to the working directory.
Status apply_yaml(std::string_view yaml, const std::string& name, Config& config);

// What must hold whatever it came from.
Status check(const Config& config);

// What can change while running (policies, sets, typical pods, the step, the log level). The rest of `next`
// is not taken over; the names of settings that differ there and need a restart come back.
std::vector<std::string> take_over_reloadable(const Config& next, Config& running);

}  // namespace tessera::extender
