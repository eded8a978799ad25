// extender/metrics.h
//
// What Prometheus sees. Durations and rates are counted here as they happen; what the books know is read when
// somebody asks. docs/reference.md lists every name. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/readings.h"
#include "http/server.h"

namespace tessera::extender {

using daemon::Reading;

class Metrics {
 public:
  Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  void answered(const http::Access& access);
  void filtered(std::size_t fit, std::size_t failed, std::size_t hopeless);
  void looked_twice();
  void bad_body();
  void bind_decided(std::chrono::nanoseconds took);

  // All of it in the text format; readings of the same name must stand together.
  [[nodiscard]] std::string text(const std::vector<Reading>& readings) const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace tessera::extender
