#include "agent/flags.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "daemon/config_flags.h"

namespace tessera::agent {

namespace {

constexpr daemon::ConfigFlag kFlags[] = {
    {"--node-name", "nodeName: {}",
     "Name of the Kubernetes node this agent runs on (default: $NODE_NAME, or the host's name)"},
    {"--kubeconfig", "kubeconfig: {}",
     "Path of a kubeconfig, to reach the API server from outside a cluster"},
    {"--listen", "listen: {}", "ADDRESS:PORT for health, metrics and /allocations (default 0.0.0.0:39997)"},
    {"--log-level", "log: {{level: {}}}", "debug, info, warn, error or off"},
    {"--log-format", "log: {{format: {}}}", "text or json"},
    {"--unit", "unit: {}",
     "Size of one unit of gpu-mem: GiB, MiB, 256MiB ... (the same in the whole cluster)"},
    {"--subtract-driver-memory", "subtractDriverMemory: {}",
     "true: offer only the memory that the driver does not reserve"},
    {"--resource-prefix", "resources: {{prefix: {}}}", "Domain of the resources, instead of aliyun.com"},
    {"--resource-whole", "resources: {{whole: {}}}",
     "Name of the whole-GPU resource, for example nvidia.com/gpu"},
    {"--machine", "machine: {}", "Kind of machine, the key of tables for the policy static"},
    {"--strategy", "strategy: {}", "How containers see their GPUs: env (nvidia runtime), devices or cdi"},
    {"--driver-libraries", "driverLibraries: {}",
     "With devices or cdi: mount the driver where the linker looks (linker) or set LD_LIBRARY_PATH (env)"},
    {"--xids", "xids: {}", "Changes to the classification of XIDs: \"ignored=62,74;fatal=94\""},
    {"--node-labels", "nodeLabels: {}", "false: set no labels on the node"},
    {"--legacy-annotations", "legacyAnnotations: {}", "false: do not write GPU_TOPOLOGY and GSOC_DEV_*"},
    {"--node-condition", "nodeCondition: {}", "false: do not set the node's condition GPUsHealthy"},
    {"--unhealthy-config-map", "unhealthyConfigMap: {{write: {}}}",
     "false: do not write ConfigMap unhealthy-gpu-NODE for old extenders"},
    {"--unhealthy-config-map-namespace", "unhealthyConfigMap: {{namespace: {}}}",
     "... namespace of that ConfigMap (default kube-system)"},
    {"--memory-policy", "memory: {{policy: {}}}",
     "Containers that use more GPU memory than they request: ignore, report (default) or evict"},
    {"--memory-grace", "memory: {{grace: {}}}", "... evict after this time over the limit (default 30s)"},
    {"--memory-slack", "memory: {{slack: {}}}",
     "... tolerate this much over the limit (default 0, for example 512Mi)"},
    {"--sample-every", "sampleEvery: {}",
     "How often to ask the driver which processes use the GPUs (default 10s)"},
    {"--drain-timeout", "drainTimeout: {}",
     "How long to wait at the end until no more pods are bound to the node; 0s: not at all (default 10s)"},
    {"--nvml-library", "paths: {{nvmlLibrary: {}}}",
     "Path of libnvidia-ml.so.1 (default: found below the driver root)"},
    {"--driver-root", "paths: {{driverRoot: {}}}",
     "Where the driver is installed, as the host sees it (default /)"},
    {"--driver-root-ctr-path", "paths: {{driverRootHere: {}}}",
     "... as this program sees it (default: the same)"},
    {"--dev-root", "paths: {{devRoot: {}}}", "Where /dev is, as the host sees it"},
    {"--dev-root-ctr-path", "paths: {{devRootHere: {}}}", "... as this program sees it (default: the same)"},
    {"--sysfs-root", "paths: {{sysfsRoot: {}}}", "Where /sys is"},
    {"--proc-root", "paths: {{procRoot: {}}}", "Where the host's /proc is"},
    {"--kubelet-dir", "paths: {{kubeletDir: {}}}", "kubelet's directory (default /var/lib/kubelet)"},
    {"--cdi-dir", "paths: {{cdiDir: {}}}", "Directory for CDI specs (default /var/run/cdi)"},
    {"--state-dir", "paths: {{stateDir: {}}}",
     "Directory for state that must survive a restart (default /var/lib/tessera)"},
};

Result<Config> load(const daemon::ConfigFlags& flags, const daemon::Environment& environment) {
  Config config;
  TRY(apply_environment(environment, config));
  TRY(flags.load({.apply = [&](std::string_view yaml,
                               const std::string& name) { return apply_yaml(yaml, name, config); },
                  .check = [&] { return complete(config); }}));
  return config;
}

}  // namespace

std::variant<CommandLine, int> parse_command_line(int argc, const char* const* argv,
                                                  const daemon::Environment& environment) {
  CLI::App app(
      "Publishes the GPUs of this node to Kubernetes and assigns containers the GPUs chosen for them.",
      "tessera-agent");
  daemon::ConfigFlags flags(app, kFlags, "docs/reference.md");
  if (const std::optional<int> code = flags.parse(argc, argv)) {
    return *code;
  }
  Result<Config> config = load(flags, environment);
  if (!config) {
    fmt::print(stderr, "tessera-agent: {}\n", config.error().text());
    return 1;
  }
  return CommandLine{.check_only = flags.check_only(), .config = *std::move(config)};
}

}  // namespace tessera::agent
