// daemon/health_routes.h
//
// The routes that every daemon serves: /healthz, /readyz, /metrics and /version.
//
//   if (!health.handle(request, reply)) {
//     reply.send_error(404, "...");
//   }
//
// Use it only on the event loop's thread.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "http/server.h"

namespace tessera::daemon {

class HealthRoutes {
 public:
  struct Sources {
    std::function<std::string()> not_ready;  // returns what the daemon waits for; "" if it is ready
    std::function<std::string()> metrics;    // returns the body of /metrics
  };

  explicit HealthRoutes(Sources sources) : sources_(std::move(sources)) {}

  // Answers a request for one of the four routes. Returns false, and leaves `reply` unused, for any
  // other path.
  bool handle(http::Request& request, http::Reply& reply) const;

 private:
  Sources sources_;
};

// Returns true if the request is a GET or HEAD. Otherwise responds 405 and returns false.
bool is_get(const http::Request& request, http::Reply& reply);

}  // namespace tessera::daemon
