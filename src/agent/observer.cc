#include "agent/observer.h"

#include <utility>

#include "agent/allocations_json.h"
#include "base/version.h"

namespace tessera::agent {

Observer::Observer(http::EventLoop& loop, kube::Client& client, ObserverOptions options,
                   MemoryWatch::Tell tell, Sources sources)
    : loop_(loop),
      options_(std::move(options)),
      sources_(std::move(sources)),
      memory_watch_(client, options_.node, options_.memory, std::move(tell)) {}

void Observer::start(UsageSampler::Look look) {
  sampler_.emplace(loop_, options_.sampler, std::move(look),
                   [this](const UsageSample& sample) { sampled(sample); });
  sampler_->start();
}

std::vector<MemoryUse> Observer::uses(const UsageSample& sample, alloc::Unit unit) const {
  return memory_uses(sample, sources_.allocations(), sources_.pods(), unit);
}

void Observer::sampled(const UsageSample& sample) {
  if (const auto state = sources_.state()) {
    memory_watch_.look_at(uses(sample, state->inventory.unit), state->inventory);
  }
}

void Observer::handle(http::Request& request, http::Reply reply) const {
  const std::string_view path = request.path();
  const auto text = [&](std::string_view route, int status, std::string body) {
    request.set_route(route);
    reply.send({.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(body)});
  };
  if (request.method() != "GET" && request.method() != "HEAD") {
    reply.send_error(405, "only GET is understood here");
  } else if (path == "/healthz") {
    text("healthz", 200, "ok\n");
  } else if (path == "/readyz") {
    const std::string missing = sources_.not_ready();
    text("readyz", missing.empty() ? 200 : 503, missing.empty() ? "ok\n" : missing + "\n");
  } else if (path == "/version") {
    text("version", 200, std::string(version()));
  } else if (path == "/metrics") {
    request.set_route("metrics");
    reply.send({.content_type = "text/plain; version=0.0.4", .body = metrics_text()});
  } else if (path == "/allocations") {
    request.set_route("allocations");
    reply.send({.body = allocations_text()});
  } else {
    reply.send_error(404, "there are /healthz, /readyz, /metrics, /allocations and /version");
  }
}

std::string Observer::metrics_text() const {
  Readings readings;
  if (const auto state = sources_.state()) {
    const UsageSample none;
    const UsageSample& sample = sampler_ ? sampler_->latest() : none;
    const std::vector<MemoryUse> now = uses(sample, state->inventory.unit);
    readings.add_gpus(*state, sample, now);
    readings.add_containers(*state, now, memory_watch_);
  }
  sources_.more(sampler_ ? sampler_->age() : std::nullopt, readings);
  return metrics_.text(readings.take());
}

std::string Observer::allocations_text() const {
  const auto state = sources_.state();
  return allocations_json(options_.node, state ? state->inventory : alloc::Inventory{},
                          sources_.allocations());
}

}  // namespace tessera::agent
