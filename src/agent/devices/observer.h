// agent/devices/observer.h
//
// Serves the agent's HTTP routes.
//
// All calls are made on the event loop's thread, except metrics().
#pragma once

#include <functional>
#include <string>

#include "agent/devices/metrics.h"
#include "agent/devices/readings.h"
#include "daemon/health_routes.h"
#include "http/server.h"

namespace tessera::agent {

class Observer {
 public:
  // Functions that a route calls when it needs the data.
  struct Sources {
    // Returns why the agent cannot serve pods yet; empty if it is ready.
    std::function<std::string()> not_ready{};
    // Adds all readings that are not in metrics().
    std::function<void(Readings&)> readings{};
    // Returns the body of /allocations (allocations_json.h).
    std::function<std::string()> allocations{};
  };

  explicit Observer(Sources sources);
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  [[nodiscard]] Metrics& metrics() { return metrics_; }

  // Serves /healthz, /readyz, /metrics, /allocations and /version; answers other paths with 404.
  void handle(http::Request& request, http::Reply reply) const;

  // Returns the body of /metrics.
  [[nodiscard]] std::string metrics_text() const;

 private:
  const Sources sources_;
  const daemon::HealthRoutes health_;
  Metrics metrics_;
};

}  // namespace tessera::agent
