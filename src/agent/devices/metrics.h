// agent/devices/metrics.h
//
// What Prometheus sees of the agent. Calls are counted here as they happen; what the ledger, the driver and
// the last sample know is read when somebody asks (readings.h). docs/reference.md lists every name. Any thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/readings.h"
#include "http/server.h"

namespace tessera::agent {

class Metrics {
 public:
  Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  void answered(const http::Access& access);
  // A question of kubelet: "prefer", "allocate" or "pre_start", for a resource; whether we gave what it
  // asked for.
  void kubelet_asked(std::string_view call, const std::string& resource, bool well,
                     std::chrono::nanoseconds took);

  // All of it in the text format; readings of the same name must stand together.
  [[nodiscard]] std::string text(const std::vector<daemon::Reading>& readings) const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace tessera::agent
