#include "extender/flags.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "daemon/config_flags.h"

namespace tessera::extender {

namespace {

constexpr daemon::ConfigFlag kFlags[] = {
    {"--attach", "attach: {}", "sidecar (in one pod with a scheduler) or service (replicas elect a leader)"},
    {"--listen", "listen: {}", "ADDRESS:PORT for the calls of kube-scheduler (default 127.0.0.1:39999)"},
    {"--health", "health: {}", "ADDRESS:PORT of a separate port for health and metrics"},
    {"--kubeconfig", "kubeconfig: {}", "How to reach the API server outside of a cluster"},
    {"--log-level", "log: {{level: {}}}", "debug, info, warn, error or off"},
    {"--log-format", "log: {{format: {}}}", "text or json"},
    {"--unit", "unit: {}", "What one unit of gpu-mem is: GiB, MiB, 256MiB ..."},
    {"--policy-shared", "policies: {{shared: {}}}", "binpack, spread or fgd"},
    {"--policy-whole", "policies: {{whole: {}}}", "simple, static, prim, best_effort or ring"},
    {"--resource-prefix", "resources: {{prefix: {}}}", "Domain of the resources, instead of aliyun.com"},
    {"--resource-whole", "resources: {{whole: {}}}", "Name of the whole-GPU resource"},
    {"--lease-namespace", "lease: {{namespace: {}}}", "Namespace of the Lease (with --attach service)"},
    {"--lease-name", "lease: {{name: {}}}", "Name of the Lease"},
    {"--agent-selector", "agentSelector: {}",
     "Labels of the tessera-agent pods in the extender's namespace, to stop placing pods on a node whose "
     "agent is not ready"},
};

Result<Config> load(const daemon::ConfigFlags& flags, const daemon::Environment& environment) {
  Config config;
  apply_environment(environment, config);
  TRY(flags.load({.apply = [&](std::string_view yaml,
                               const std::string& name) { return apply_yaml(yaml, name, config); },
                  .check = [&] { return check(config); }}));
  return config;
}

}  // namespace

std::variant<CommandLine, int> parse_command_line(int argc, const char* const* argv,
                                                  daemon::Environment environment) {
  CLI::App app(
      "Answers kube-scheduler: filters and scores nodes for GPU pods, and binds each pod to its GPUs.",
      "tessera-extender");
  CommandLine line;
  const auto flags = std::make_shared<daemon::ConfigFlags>(app, kFlags, "docs/reference.md");
  app.add_flag("--print-scheduler-config", line.print_scheduler_config,
               "Print a KubeSchedulerConfiguration that attaches kube-scheduler to this extender");
  app.add_option("--merge", line.merge,
                 "... merged into this existing file, which may be a scheduler Policy of an old cluster")
      ->option_text("FILE");
  app.add_option("--url", line.url, "... with this URL of the extender, for example http://10.0.0.1:32766")
      ->option_text("URL");
  app.add_option("--scheduler-kubeconfig", line.scheduler_kubeconfig,
                 "... with this kubeconfig for the API server; '' for the pod's service account "
                 "(default /etc/kubernetes/scheduler.conf with --attach service, else '')")
      ->option_text("FILE");
  if (const std::optional<int> code = flags->parse(argc, argv)) {
    return *code;
  }
  if (!line.print_scheduler_config &&
      (!line.merge.empty() || !line.url.empty() || line.scheduler_kubeconfig)) {
    fmt::print(stderr,
               "tessera-extender: --merge, --url and --scheduler-kubeconfig need "
               "--print-scheduler-config\n");
    return 2;
  }
  line.check_only = flags->check_only();
  line.load = [flags, environment = std::move(environment)] { return load(*flags, environment); };
  return line;
}

}  // namespace tessera::extender
