// The program around an Extender: command line, signals, threads.
#include <fmt/core.h>

#include <cstdio>

#include "base/file.h"
#include "base/log.h"
#include "daemon/config_flags.h"
#include "daemon/signal_loop.h"
#include "extender/extender.h"
#include "extender/flags.h"
#include "extender/scheduler_config.h"
#include "kube/access.h"

namespace tessera::extender {

namespace {

int report(const Error& error) {
  fmt::print(stderr, "tessera-extender: {}\n", error.text());
  return 1;
}

Result<SchedulerConfig> make_scheduler_config(const CommandLine& line, const Config& config) {
  const std::string url = line.url.empty() ? default_url(config) : TRY(extender_url(line.url));
  if (line.merge.empty()) {
    return SchedulerConfig{.yaml = scheduler_config(config, url, line.scheduler_kubeconfig), .remarks = {}};
  }
  const std::string existing = TRY(read_file(line.merge, 1U << 20U));
  return merge_scheduler_config(config, url, existing, line.merge, line.scheduler_kubeconfig);
}

int print_scheduler_config(const CommandLine& line, const Config& config) {
  const Result<SchedulerConfig> made = make_scheduler_config(line, config);
  if (!made) {
    return report(made.error());
  }
  for (const std::string& remark : made->remarks) {
    fmt::print(stderr, "tessera-extender: note: {}\n", remark);
  }
  fmt::print("{}", made->yaml);
  return 0;
}

void reload(const CommandLine& line, http::EventLoop& loop, Extender& extender) {
  const Result<Config> next = line.load();
  if (next) {
    loop.post([&extender, config = *next] { extender.reload(config); });
  } else {
    log::error("configuration not reloaded; the previous one stays in use", {{"error", next.error()}});
  }
}

Status serve(const CommandLine& line, const Config& config) {
  TRY(log::configure(config.log));
  daemon::SignalLoop signals = TRY(daemon::SignalLoop::create(daemon::SignalLoop::Reload::kOnHangup));
  kube::AccessOptions options;
  options.kubeconfig = config.kubeconfig;
  kube::ClusterAccess access = TRY(kube::find_access(options));
  http::EventLoop loop;
  const std::unique_ptr<Extender> extender =
      TRY(Extender::create(loop, config, std::move(access),
                           {.name = daemon::process_environment("POD_NAME").value_or(""),
                            .namespace_name = daemon::process_environment("POD_NAMESPACE").value_or("")}));
  signals.run(loop, {.start = [&extender] { extender->start(); },
                     .stop = [&] { loop.post([&] { extender->stop([&loop] { loop.stop(); }); }); },
                     .reload = [&] { reload(line, loop, *extender); }});
  return {};
}

}  // namespace

int run(int argc, char** argv) {
  const std::variant<CommandLine, int> parsed = parse_command_line(argc, argv, daemon::process_environment);
  if (const int* code = std::get_if<int>(&parsed)) {
    return *code;
  }
  const auto& line = std::get<CommandLine>(parsed);
  const Result<Config> config = line.load();
  if (!config) {
    return report(config.error());
  }
  if (line.print_scheduler_config) {
    return print_scheduler_config(line, *config);
  }
  if (line.check_only) {
    return 0;
  }
  const Status served = serve(line, *config);
  return served ? 0 : report(served.error());
}

}  // namespace tessera::extender
