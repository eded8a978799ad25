// The program around an Extender: command line, signals, threads.
#include <fmt/core.h>
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/file.h"
#include "base/log.h"
#include "base/signals.h"
#include "extender/extender.h"
#include "extender/flags.h"
#include "extender/scheduler_config.h"
#include "kube/access.h"

namespace tessera::extender {

namespace {

std::optional<std::string> from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

int complain(const Error& error) {
  fmt::print(stderr, "tessera-extender: {}\n", error.text());
  return 1;
}

Result<SchedulerConfig> wanted_scheduler_config(const CommandLine& line, const Config& config) {
  const std::string url = line.url.empty() ? default_url(config) : TRY(extender_url(line.url));
  if (line.merge.empty()) {
    return SchedulerConfig{.yaml = scheduler_config(config, url, line.scheduler_kubeconfig), .remarks = {}};
  }
  const std::string existing = TRY(read_file(line.merge, 1U << 20U));
  return merge_scheduler_config(config, url, existing, line.merge, line.scheduler_kubeconfig);
}

int print_scheduler_config(const CommandLine& line, const Config& config) {
  const Result<SchedulerConfig> made = wanted_scheduler_config(line, config);
  if (!made) {
    return complain(made.error());
  }
  for (const std::string& remark : made->remarks) {
    fmt::print(stderr, "tessera-extender: note: {}\n", remark);
  }
  fmt::print("{}", made->yaml);
  return 0;
}

// Until SIGTERM or SIGINT; SIGHUP reads the configuration again.
void wait_for_end(SignalWatch& signals, const CommandLine& line, http::EventLoop& loop, Extender& extender) {
  while (true) {
    pollfd waiting{.fd = signals.fd(), .events = POLLIN, .revents = 0};
    poll(&waiting, 1, -1);
    const std::optional<int> signal = signals.read();
    if (!signal) {
      continue;
    }
    if (*signal != SIGHUP) {
      log::info("stop", {{"signal", *signal}});
      return;
    }
    const Result<Config> next = line.load();
    if (next) {
      loop.post([&extender, config = *next] { extender.reload(config); });
    } else {
      log::error("configuration not reloaded; going on with the old one", {{"why", next.error()}});
    }
  }
}

Status serve(const CommandLine& line, const Config& config) {
  TRY(log::configure(config.log));
  // Before any thread: they inherit the blocked signals.
  SignalWatch signals = TRY(SignalWatch::create({SIGTERM, SIGINT, SIGHUP}));
  kube::AccessOptions options;
  options.kubeconfig = config.kubeconfig;
  kube::ClusterAccess access = TRY(kube::find_access(options));
  http::EventLoop loop;
  const std::unique_ptr<Extender> extender =
      TRY(Extender::create(loop, config, std::move(access),
                           {.name = from_environment("POD_NAME").value_or(""),
                            .namespace_name = from_environment("POD_NAMESPACE").value_or("")}));
  loop.post([&extender] { extender->start(); });
  std::thread thread([&loop] { loop.run(); });
  wait_for_end(signals, line, loop, *extender);
  loop.post([&] { extender->stop([&loop] { loop.stop(); }); });
  thread.join();
  return {};
}

}  // namespace

int run(int argc, char** argv) {
  const std::variant<CommandLine, int> parsed = parse_command_line(argc, argv, from_environment);
  if (const int* code = std::get_if<int>(&parsed)) {
    return *code;
  }
  const auto& line = std::get<CommandLine>(parsed);
  const Result<Config> config = line.load();
  if (!config) {
    return complain(config.error());
  }
  if (line.print_scheduler_config) {
    return print_scheduler_config(line, *config);
  }
  if (line.check_only) {
    return 0;
  }
  const Status served = serve(line, *config);
  return served ? 0 : complain(served.error());
}

}  // namespace tessera::extender
