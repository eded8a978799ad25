// agent/devices/observer.h
//
// The agent's HTTP routes.
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
  // Called when a route needs them.
  struct Sources {
    std::function<std::string()> not_ready{};    // what is missing until pods can be served; empty: nothing
    std::function<void(Readings&)> readings{};   // adds all readings that are not in metrics()
    std::function<std::string()> allocations{};  // the body of /allocations (allocations_json.h)
  };

  explicit Observer(Sources sources);
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  [[nodiscard]] Metrics& metrics() { return metrics_; }

  // /healthz, /readyz, /metrics, /allocations and /version.
  void handle(http::Request& request, http::Reply reply) const;

  // The body of /metrics.
  [[nodiscard]] std::string metrics_text() const;

 private:
  const Sources sources_;
  const daemon::HealthRoutes health_;
  Metrics metrics_;
};

}  // namespace tessera::agent
