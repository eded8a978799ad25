// The main program: parses the command line, then runs an Agent until a signal stops it.
#include <fmt/core.h>
#include <malloc.h>

#include <cstdio>

#include "agent/agent.h"
#include "agent/flags.h"
#include "base/log.h"
#include "daemon/signal_loop.h"
#include "kube/access.h"

namespace tessera::agent {

namespace {

Status serve(const Config& config) {
  TRY(log::configure(config.log));
  daemon::SignalLoop signals = TRY(daemon::SignalLoop::create(daemon::SignalLoop::Reload::kNo));
  kube::AccessOptions options;
  options.kubeconfig = config.kubeconfig;
  kube::ClusterAccess access = TRY(kube::find_access(options));
  http::EventLoop loop;
  const std::unique_ptr<Agent> agent = TRY(Agent::create(loop, config, std::move(access)));
  signals.run(loop, {.start = [&agent] { agent->start(); },
                     .stop =
                         [&] {
                           agent->drain();
                           agent->leave();
                           loop.stop();
                         }});
  return {};
}

}  // namespace

int run(int argc, char** argv) {
  // gRPC has many threads that allocate little memory. With one malloc arena per thread, the arenas
  // would take most of the process's memory.
  mallopt(M_ARENA_MAX, 2);
  const std::variant<CommandLine, int> parsed = parse_command_line(argc, argv, daemon::process_environment);
  if (const int* code = std::get_if<int>(&parsed)) {
    return *code;
  }
  const auto& line = std::get<CommandLine>(parsed);
  if (line.check_only) {
    return 0;
  }
  const Status served = serve(line.config);
  if (!served) {
    fmt::print(stderr, "tessera-agent: {}\n", served.error().text());
    return 1;
  }
  return 0;
}

}  // namespace tessera::agent
