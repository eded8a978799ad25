// daemon/readings.h
//
// What a /metrics endpoint answers: what a registry counted, and numbers that somebody else keeps and that
// are read when they are asked for.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "http/server.h"

namespace prometheus {
class Registry;
}

namespace tessera::daemon {

// A number that somebody else keeps.
struct Reading {
  enum class Kind { kGauge, kCounter };

  std::string name;  // "tessera_extender_nodes"
  std::string help;
  Kind kind = Kind::kGauge;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};

// What happens to a server's connections: `name` ("tessera_extender_connections") for how many are open, and
// with _total, _refused_total, _bad_requests_total, _timeouts_total and _tls_failures_total behind it.
std::vector<Reading> server_readings(const std::string& name, const http::ServerStats& stats);

// All of it in Prometheus' text format; readings of the same name must stand together.
std::string metrics_text(const prometheus::Registry& registry, const std::vector<Reading>& readings);

}  // namespace tessera::daemon
