#include "agent/devices/observer.h"

#include <utility>

#include "base/version.h"

namespace tessera::agent {

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
    reply.send({.body = sources_.allocations()});
  } else {
    reply.send_error(404, "there are /healthz, /readyz, /metrics, /allocations and /version");
  }
}

std::string Observer::metrics_text() const {
  Readings readings;
  sources_.readings(readings);
  return metrics_.text(readings.take());
}

}  // namespace tessera::agent
