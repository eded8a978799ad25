// The program around an Agent: command line, signals, threads.
#include <fmt/core.h>
#include <malloc.h>
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "agent/agent.h"
#include "agent/flags.h"
#include "base/log.h"
#include "base/signals.h"
#include "kube/access.h"

namespace tessera::agent {

namespace {

std::optional<std::string> from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void wait_for_end(SignalWatch& signals) {
  while (true) {
    pollfd waiting{.fd = signals.fd(), .events = POLLIN, .revents = 0};
    poll(&waiting, 1, -1);
    if (const std::optional<int> signal = signals.read()) {
      log::info("stop", {{"signal", *signal}});
      return;
    }
  }
}

Status serve(const Config& config) {
  TRY(log::configure(config.log));
  // Before any thread: they inherit the blocked signals.
  SignalWatch signals = TRY(SignalWatch::create({SIGTERM, SIGINT}));
  kube::AccessOptions options;
  options.kubeconfig = config.kubeconfig;
  kube::ClusterAccess access = TRY(kube::find_access(options));
  http::EventLoop loop;
  const std::unique_ptr<Agent> agent = TRY(Agent::create(loop, config, std::move(access)));
  loop.post([&agent] { agent->start(); });
  std::thread thread([&loop] { loop.run(); });
  wait_for_end(signals);
  agent->leave();
  loop.stop();
  thread.join();
  return {};
}

}  // namespace

int run(int argc, char** argv) {
  // gRPC has many threads that allocate little: an arena for each would be most of our memory.
  mallopt(M_ARENA_MAX, 2);
  const std::variant<CommandLine, int> parsed = parse_command_line(argc, argv, from_environment);
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
