#include "daemon/health_routes.h"

#include "base/version.h"

namespace tessera::daemon {

namespace {

void send_text(http::Reply& reply, int status, std::string text) {
  reply.send({.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(text)});
}

}  // namespace

bool is_get(const http::Request& request, http::Reply& reply) {
  if (request.method() == "GET" || request.method() == "HEAD") {
    return true;
  }
  reply.send_error(405, "use GET");
  return false;
}

bool HealthRoutes::handle(http::Request& request, http::Reply& reply) const {
  const std::string_view path = request.path();
  if (path != "/healthz" && path != "/readyz" && path != "/metrics" && path != "/version") {
    return false;
  }
  if (!is_get(request, reply)) {
    return true;
  }
  request.set_route(path.substr(1));
  if (path == "/healthz") {
    send_text(reply, 200, "ok\n");
  } else if (path == "/readyz") {
    const std::string missing = sources_.not_ready();
    send_text(reply, missing.empty() ? 200 : 503, missing.empty() ? "ok\n" : missing + "\n");
  } else if (path == "/metrics") {
    reply.send({.content_type = "text/plain; version=0.0.4", .body = sources_.metrics()});
  } else {
    send_text(reply, 200, std::string(version()));
  }
  return true;
}

}  // namespace tessera::daemon
