// extender/config.h
//
// The configuration of the extender. It comes from four sources; a later one overrides an earlier
// one:
//
//   defaults < environment of the original (PORT, LOG_LEVEL) < YAML file (--config) < flags
//
// docs/reference.md lists every setting. A plain value, valid once check() has accepted it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/names.h"
#include "alloc/request.h"
#include "alloc/units.h"
#include "base/log.h"
#include "base/result.h"
#include "daemon/config_flags.h"
#include "topology/static_sets.h"

namespace tessera::extender {

// How kube-scheduler reaches the extender.
enum class Attach {
  kSidecar,  // in the pod of a kube-scheduler; leads while that kube-scheduler leads
  kService,  // through a Service; the replicas elect a leader among themselves
};

// A kind of pod that is expected in the future, for the policy `fgd`.
struct TypicalPodSpec {
  std::uint32_t units = 0;  // memory on each GPU; 0: whole GPUs
  std::uint16_t gpus = 1;
  std::int64_t cpu_milli = 0;
  std::vector<std::string> models;  // empty: any
  std::uint64_t count = 1;          // weight compared to the other typical pods

  friend bool operator==(const TypicalPodSpec&, const TypicalPodSpec&) = default;
};

// The pod of this process; both empty outside of a cluster.
struct OwnPod {
  std::string name;
  std::string namespace_name;
};

struct Config {
  Attach attach = Attach::kSidecar;

  // Address for the calls of kube-scheduler. Callers are not authenticated, so by default only
  // containers of the same pod can connect.
  std::string address = "127.0.0.1";
  std::uint16_t port = 39999;
  // A separate port that serves only health, metrics and version, for kubelet and Prometheus. Port
  // 0: none.
  std::string health_address = "0.0.0.0";
  std::uint16_t health_port = 0;
  // Files for HTTPS. If they are empty, the extender serves plain HTTP. With a client CA, only
  // clients with a certificate of that CA can connect.
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
  // Difference between the scores of two consecutive ranks in prioritize. kube-scheduler multiplies
  // our scores by ten, and its own plugins add at most 1,200 by default. A step of 128 becomes
  // 1,280, so it outweighs these plugins.
  std::int64_t score_step = 128;

  std::string lease_name = "tessera-extender";
  std::string lease_namespace;  // empty: the namespace of the pod
  // Shorter than the 15 s of kube-scheduler, because a leader that is killed is replaced only after
  // this time. A replica that loses the Lease does not end, so a short outage of the API server costs
  // nothing.
  std::chrono::seconds lease_duration{10};
  std::chrono::seconds renew_deadline{5};
  // How often a replica tries to take the Lease. When the leader ends, another replica takes the
  // Lease within 1.2 retry periods and then lists all pods. The period is short, because binding
  // must be possible again within 5 s. For a sidecar, scheduler_config.cc sets the same period for
  // the Lease of kube-scheduler.
  std::chrono::seconds retry_period{1};

  // For a sidecar: the Lease of the kube-scheduler in the same pod. Both empty: the Lease is not
  // watched.
  std::string scheduler_lease_namespace;
  std::string scheduler_lease_name;

  // Labels of the agents' pods, in the namespace of this pod. Empty: the agents are not watched.
  std::string agent_selector;

  std::chrono::milliseconds bind_timeout{4'000};
  std::size_t binds_at_once = 1024;
  std::size_t max_body_bytes = 64U << 20U;
  std::size_t max_connections = 1280;
};

// Reads PORT and LOG_LEVEL, the environment variables of the original. Like the original, ignores a
// PORT that is not a number. THREADNESS has no meaning here and is ignored. kube/access.h reads
// KUBECONFIG.
void apply_environment(const daemon::Environment& environment, Config& config);

// Overwrites the settings of `config` that `yaml` contains. Errors begin with "NAME:LINE:COLUMN:".
// Relative paths in `yaml` are relative to the working directory.
Status apply_yaml(std::string_view yaml, const std::string& name, Config& config);

// Validates the complete configuration. Errors begin with the path of the setting and a colon.
Status check(const Config& config);

// Copies to `running` the settings that may change while the extender runs: policies, static sets,
// typical pods, score step and log. Returns the names of the other settings that differ; they need
// a restart.
std::vector<std::string> apply_reloadable(const Config& next, Config& running);

}  // namespace tessera::extender
