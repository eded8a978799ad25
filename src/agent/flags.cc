#include "agent/flags.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "base/file.h"
#include "base/version.h"
#include "daemon/yaml_setting.h"

namespace tessera::agent {

namespace {

// A flag is a setting of the file under another name: it goes through the same reader and the same checks.
struct Flag {
  const char* name;
  const char* yaml;  // with {} where the value goes
  const char* help;
};

constexpr Flag kFlags[] = {
    {"--node-name", "nodeName: {}",
     "The Kubernetes node this runs on (default: $NODE_NAME, or the host's name)"},
    {"--kubeconfig", "kubeconfig: {}", "How to reach the API server outside of a cluster"},
    {"--listen", "listen: {}", "Health, metrics and /allocations, ADDRESS:PORT (default 0.0.0.0:39997)"},
    {"--log-level", "log: {{level: {}}}", "debug, info, warn, error or off"},
    {"--log-format", "log: {{format: {}}}", "text or json"},
    {"--unit", "unit: {}", "What one unit of gpu-mem is: GiB, MiB, 256MiB ... (one for the whole cluster)"},
    {"--subtract-driver-memory", "subtractDriverMemory: {}",
     "true: make shares only of what the driver leaves"},
    {"--resource-prefix", "resources: {{prefix: {}}}", "Instead of aliyun.com"},
    {"--resource-whole", "resources: {{whole: {}}}",
     "Name of the whole-GPU resource, for example nvidia.com/gpu"},
    {"--machine", "machine: {}", "Kind of machine, the key of tables for the policy static"},
    {"--strategy", "strategy: {}", "How containers see their GPUs: env (nvidia runtime), devices or cdi"},
    {"--driver-libraries", "driverLibraries: {}",
     "With devices or cdi: mount the driver where the linker looks (linker) or set LD_LIBRARY_PATH (env)"},
    {"--xids", "xids: {}", "Changes to how XIDs are taken: \"ignored=62,74;fatal=94\""},
    {"--node-labels", "nodeLabels: {}", "false: set no labels on the node"},
    {"--legacy-annotations", "legacyAnnotations: {}", "false: do not write GPU_TOPOLOGY and GSOC_DEV_*"},
    {"--node-condition", "nodeCondition: {}", "false: do not set the node's condition GPUsHealthy"},
    {"--unhealthy-config-map", "unhealthyConfigMap: {{write: {}}}",
     "false: do not write ConfigMap unhealthy-gpu-NODE for old extenders"},
    {"--unhealthy-config-map-namespace", "unhealthyConfigMap: {{namespace: {}}}",
     "... and where (default kube-system)"},
    {"--memory-policy", "memory: {{policy: {}}}",
     "Containers that use more GPU memory than they asked for: ignore, report (default) or evict"},
    {"--memory-grace", "memory: {{grace: {}}}",
     "... evicted when they have been over for so long (default 30s)"},
    {"--memory-slack", "memory: {{slack: {}}}", "... by more than this (default 0, for example 512Mi)"},
    {"--sample-every", "sampleEvery: {}", "How often the driver is asked who uses what (default 10s)"},
    {"--nvml-library", "paths: {{nvmlLibrary: {}}}",
     "libnvidia-ml.so.1 (default: found below the driver root)"},
    {"--driver-root", "paths: {{driverRoot: {}}}",
     "Where the driver is installed, as the host sees it (default /)"},
    {"--driver-root-ctr-path", "paths: {{driverRootHere: {}}}",
     "... as this program sees it (default: the same)"},
    {"--dev-root", "paths: {{devRoot: {}}}", "Where /dev is, as the host sees it"},
    {"--dev-root-ctr-path", "paths: {{devRootHere: {}}}", "... as this program sees it (default: the same)"},
    {"--sysfs-root", "paths: {{sysfsRoot: {}}}", "Where /sys is"},
    {"--proc-root", "paths: {{procRoot: {}}}", "Where the host's /proc is"},
    {"--kubelet-dir", "paths: {{kubeletDir: {}}}", "kubelet's directory (default /var/lib/kubelet)"},
    {"--cdi-dir", "paths: {{cdiDir: {}}}", "Where CDI specs go (default /var/run/cdi)"},
    {"--state-dir", "paths: {{stateDir: {}}}", "What must survive a restart (default /var/lib/tessera)"},
};

struct Given {
  std::string config_file;
  std::vector<std::pair<const Flag*, std::string>> flags;
};

Result<Config> load(const Given& given, const Environment& environment) {
  Config config;
  TRY(apply_environment(environment, config));
  if (!given.config_file.empty()) {
    const std::string yaml = TRY(read_file(given.config_file, 1U << 20U));
    TRY(apply_yaml(yaml, given.config_file, config));
  }
  for (const auto& [flag, value] : given.flags) {
    TRY(apply_yaml(daemon::flag_as_yaml(flag->yaml, value), flag->name, config));
  }
  TRY(complete(config));
  return config;
}

}  // namespace

std::variant<CommandLine, int> parse_command_line(int argc, const char* const* argv,
                                                  const Environment& environment) {
  CLI::App app(
      "Makes the GPUs of this node known to Kubernetes and gives containers what was decided for them.",
      "tessera-agent");
  app.set_version_flag("--version", std::string(version()));
  Given given;
  CommandLine line;
  app.add_option("--config", given.config_file, "YAML file; docs/reference.md lists every setting")
      ->option_text("FILE");
  app.add_flag("--check-config", line.check_only,
               "Only read the configuration and say what is wrong with it");
  std::vector<std::unique_ptr<std::string>> texts;
  for (const Flag& flag : kFlags) {
    texts.push_back(std::make_unique<std::string>());
    app.add_option(flag.name, *texts.back(), flag.help)->option_text("VALUE");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (app.count(kFlags[i].name) > 0) {
      given.flags.emplace_back(&kFlags[i], *texts[i]);
    }
  }
  Result<Config> config = load(given, environment);
  if (!config) {
    fmt::print(stderr, "tessera-agent: {}\n", config.error().text());
    return 1;
  }
  line.config = *std::move(config);
  return line;
}

}  // namespace tessera::agent
