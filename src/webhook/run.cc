// The program around a Webhook: command line, signals, threads.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/log.h"
#include "daemon/config_flags.h"
#include "daemon/signal_loop.h"
#include "kube/access.h"
#include "webhook/webhook.h"

namespace tessera::webhook {

namespace {

constexpr daemon::ConfigFlag kFlags[] = {
    {"--listen", "listen: {}", "ADDRESS:PORT for the calls of the API server (default 0.0.0.0:10250)"},
    {"--health", "health: {}", "ADDRESS:PORT for health and metrics (default 0.0.0.0:39996)"},
    {"--kubeconfig", "kubeconfig: {}", "How to reach the API server outside of a cluster"},
    {"--log-level", "log: {{level: {}}}", "debug, info, warn, error or off"},
    {"--log-format", "log: {{format: {}}}", "text or json"},
    {"--scheduler-name", "schedulerName: {}", "The schedulerName that GPU pods get"},
    {"--resource-prefix", "resources: {{prefix: {}}}", "Domain of the resources, instead of aliyun.com"},
    {"--resource-whole", "resources: {{whole: {}}}", "Name of the whole-GPU resource"},
};

int report(const Error& error) {
  fmt::print(stderr, "tessera-webhook: {}\n", error.text());
  return 1;
}

Status serve(const Config& config) {
  TRY(log::configure(config.log));
  daemon::SignalLoop signals = TRY(daemon::SignalLoop::create(daemon::SignalLoop::Reload::kNo));
  std::optional<kube::ClusterAccess> access;
  if (!config.has_own_files()) {
    kube::AccessOptions options;
    options.kubeconfig = config.kubeconfig;
    access = TRY(kube::find_access(options));
  }
  http::EventLoop loop;
  const std::unique_ptr<Webhook> webhook =
      TRY(Webhook::create(loop, config,
                          {.name = daemon::process_environment("POD_NAME").value_or(""),
                           .namespace_name = daemon::process_environment("POD_NAMESPACE").value_or("")},
                          std::move(access)));
  signals.run(loop, {.start = [&webhook] { webhook->start(); },
                     .stop = [&] { loop.post([&] { webhook->stop([&loop] { loop.stop(); }); }); }});
  return {};
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app("Called by the API server: sets schedulerName on pods that request GPUs.", "tessera-webhook");
  daemon::ConfigFlags flags(app, kFlags, "docs/reference.md");
  if (const std::optional<int> code = flags.parse(argc, argv)) {
    return *code;
  }
  Config config;
  const Status loaded =
      flags.load({.apply = [&](std::string_view yaml,
                               const std::string& name) { return apply_yaml(yaml, name, config); },
                  .check = [&] { return check(config); }});
  if (!loaded) {
    return report(loaded.error());
  }
  if (flags.check_only()) {
    return 0;
  }
  const Status served = serve(config);
  return served ? 0 : report(served.error());
}

}  // namespace tessera::webhook
