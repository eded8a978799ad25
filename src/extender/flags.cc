#include "extender/flags.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/file.h"
#include "base/version.h"
#include "daemon/yaml_setting.h"

namespace tessera::extender {

namespace {

// A flag is a setting of the file under another name: it goes through the same reader and the same checks.
struct Flag {
  const char* name;
  const char* yaml;  // with {} where the value goes
  const char* help;
};

constexpr Flag kFlags[] = {
    {"--attach", "attach: {}", "sidecar (in one pod with a scheduler) or service (replicas elect a leader)"},
    {"--listen", "listen: {}", "Where kube-scheduler calls, ADDRESS:PORT (default 127.0.0.1:39999)"},
    {"--health", "health: {}", "Health and metrics on a port of their own, ADDRESS:PORT"},
    {"--kubeconfig", "kubeconfig: {}", "How to reach the API server outside of a cluster"},
    {"--log-level", "log: {{level: {}}}", "debug, info, warn, error or off"},
    {"--log-format", "log: {{format: {}}}", "text or json"},
    {"--unit", "unit: {}", "What one unit of gpu-mem is: GiB, MiB, 256MiB ..."},
    {"--policy-shared", "policies: {{shared: {}}}", "binpack, spread or fgd"},
    {"--policy-whole", "policies: {{whole: {}}}", "simple, static, best_effort or ring"},
    {"--resource-prefix", "resources: {{prefix: {}}}", "Instead of aliyun.com"},
    {"--resource-whole", "resources: {{whole: {}}}", "Name of the whole-GPU resource"},
    {"--lease-namespace", "lease: {{namespace: {}}}", "Where the Lease is (with --attach service)"},
    {"--lease-name", "lease: {{name: {}}}", "What it is called"},
};

struct Values {
  std::string config_file;
  std::vector<std::pair<const Flag*, std::string>> flags;
};

Result<Config> load(const Values& values, const Environment& environment) {
  Config config;
  daemon::SettingPlaces places;
  const auto apply = [&](const std::string& yaml, const std::string& name) -> Status {
    TRY(apply_yaml(yaml, name, config));
    daemon::note_places(yaml, name, places);
    return {};
  };
  apply_environment(environment, config);
  if (!values.config_file.empty()) {
    const std::string yaml = TRY(read_file(values.config_file, 1U << 20U));
    TRY(apply(yaml, values.config_file));
  }
  for (const auto& [flag, value] : values.flags) {
    TRY(apply(daemon::flag_as_yaml(flag->yaml, value), flag->name));
  }
  if (const Status checked = check(config); !checked) {
    return fail(daemon::with_place(checked.error(), places));
  }
  return config;
}

}  // namespace

std::variant<CommandLine, int> parse_command_line(int argc, const char* const* argv,
                                                  Environment environment) {
  CLI::App app(
      "Answers kube-scheduler which nodes can take a GPU pod, which are best, and binds it to its GPUs.",
      "tessera-extender");
  app.set_version_flag("--version", std::string(version()));
  auto values = std::make_shared<Values>();
  CommandLine line;
  app.add_option("--config", values->config_file, "YAML file; docs/reference.md lists every setting")
      ->option_text("FILE");
  std::vector<std::unique_ptr<std::string>> texts;
  for (const Flag& flag : kFlags) {
    texts.push_back(std::make_unique<std::string>());
    app.add_option(flag.name, *texts.back(), flag.help)->option_text("VALUE");
  }
  app.add_flag("--check-config", line.check_only,
               "Only read the configuration and say what is wrong with it");
  app.add_flag("--print-scheduler-config", line.print_scheduler_config,
               "Print a KubeSchedulerConfiguration that attaches kube-scheduler to this extender");
  app.add_option("--merge", line.merge, "... added to this existing one")->option_text("FILE");
  app.add_option("--url", line.url, "... that finds the extender here, for example http://10.0.0.1:32766")
      ->option_text("URL");
  app.add_option("--scheduler-kubeconfig", line.scheduler_kubeconfig,
                 "... that reaches the API server with this kubeconfig; '' for its pod's account "
                 "(default /etc/kubernetes/scheduler.conf with --attach service, else '')")
      ->option_text("FILE");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!line.print_scheduler_config &&
      (!line.merge.empty() || !line.url.empty() || line.scheduler_kubeconfig)) {
    fmt::print(stderr,
               "tessera-extender: --merge, --url and --scheduler-kubeconfig belong to "
               "--print-scheduler-config\n");
    return 2;
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (app.count(kFlags[i].name) > 0) {
      values->flags.emplace_back(&kFlags[i], *texts[i]);
    }
  }
  line.load = [values, environment = std::move(environment)] { return load(*values, environment); };
  return line;
}

}  // namespace tessera::extender
