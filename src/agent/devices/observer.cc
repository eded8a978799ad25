#include "agent/devices/observer.h"

#include <utility>

namespace tessera::agent {

Observer::Observer(Sources sources)
    : sources_(std::move(sources)),
      health_({.not_ready = sources_.not_ready, .metrics = [this] { return metrics_text(); }}) {}

void Observer::handle(http::Request& request, http::Reply reply) const {
  if (!daemon::is_get(request, reply) || health_.handle(request, reply)) {
    return;
  }
  if (request.path() == "/allocations") {
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
