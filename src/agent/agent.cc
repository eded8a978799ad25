#include "agent/agent.h"

#include <fmt/core.h>

#include <utility>

#include "agent/agent_parts.h"
#include "base/log.h"
#include "base/version.h"

namespace tessera::agent {

namespace {

constexpr std::chrono::seconds kLook{1};

}  // namespace

// What nobody calls us for.
void Agent::Parts::look_around() {
  gpus.look_around();
  if (const bool ready = not_ready().empty(); ready && !std::exchange(said_ready, ready)) {
    log::info("ready",
              {{"took_ms",
                std::chrono::duration_cast<std::chrono::milliseconds>(Clock::real().now() - began).count()}});
  }
  look = loop.after(kLook, [this] { look_around(); });
}

std::string Agent::Parts::not_ready() const {
  if (const std::string missing = gpus.not_ready(); !missing.empty()) {
    return missing;
  }
  if (!pod_watch.synced()) {
    return pod_watch.problem() ? "pods are still being listed: " + pod_watch.problem()->text()
                               : "pods are still being listed";
  }
  return "";
}

Status Agent::Parts::serve() {
  http::ServerOptions options;
  options.address = config.address;
  options.port = config.port;
  options.max_body_bytes = 64U << 10U;
  options.max_connections = 64;
  options.on_access = [this](const http::Access& access) { observer.metrics().answered(access); };
  server.emplace(
      TRY(http::Server::create(loop, std::move(options), [this](http::Request& request, http::Reply reply) {
        observer.handle(request, std::move(reply));
      })));
  return {};
}

Agent::Agent(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Agent::~Agent() = default;

Result<std::unique_ptr<Agent>> Agent::create(http::EventLoop& loop, Config config,
                                             kube::ClusterAccess access) {
  kube::ClientOptions options;
  options.user_agent = fmt::format("tessera-agent/{}", version());
  options.max_connections = 8;
  kube::Client client = TRY(kube::Client::create(loop, std::move(access), options));
  auto parts = std::make_unique<Parts>(loop, std::move(config), std::move(client));
  TRY(parts->serve());
  return std::unique_ptr<Agent>(new Agent(std::move(parts)));
}

void Agent::start() {
  Parts& parts = *parts_;
  parts.began = Clock::real().now();
  log::info("start", {{"version", version()},
                      {"node", parts.config.node_name},
                      {"listen", fmt::format("{}:{}", parts.config.address, port())},
                      {"api", parts.client.server()},
                      {"unit", parts.config.unit.text()},
                      {"records", parts.gpus.records()}});
  parts.gpus.start();
  parts.pod_watch.start();
  parts.look_around();
}

void Agent::leave() {
  parts_->gpus.leave();
}

std::uint16_t Agent::port() const {
  return parts_->server->port();
}

std::string Agent::not_ready() const {
  return parts_->not_ready();
}

}  // namespace tessera::agent
