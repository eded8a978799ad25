// alloc/typical.h
//
// The typical pods that `fgd` keeps room for: configured, or counted from recent requests.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "alloc/request.h"

namespace tessera::alloc {

struct TypicalRequest {
  Shape shape;
  std::vector<std::string> models{};  // as in Request; empty: any
  std::uint64_t count = 1;

  friend bool operator==(const TypicalRequest&, const TypicalRequest&) = default;
};

// Counts requests. Recent requests weigh more: when the counts add up to kHalveAt, all counts are
// halved.
//
//   RequestHistogram recent;
//   recent.add(request);                   // once for each new pod
//   placer.set_typical(recent.typical());  // not too often: it invalidates the scores of `fgd`
class RequestHistogram {
 public:
  static constexpr std::uint64_t kHalveAt = 20'000;
  static constexpr std::size_t kMostShapes = 4'096;
  // A request whose list of models is longer is not counted.
  static constexpr std::size_t kMostModelBytes = 512;
  static constexpr std::size_t kMostTypical = 1'024;

  void add(const Request& request);
  // The number of different requests that are counted.
  [[nodiscard]] std::size_t shapes() const { return counts_.size(); }

  // Returns the most frequent requests that together cover 99% of the pods with GPUs, most frequent
  // first; at most kMostTypical.
  [[nodiscard]] std::vector<TypicalRequest> typical() const;

 private:
  struct Kind {
    std::uint32_t units = 0;
    std::uint16_t gpus = 0;
    std::uint16_t whole = 0;
    std::int64_t cpu_milli = 0;
    std::vector<std::string> models;

    friend auto operator<=>(const Kind&, const Kind&) = default;
  };

  void halve();

  // Ordered, so that equally frequent requests are listed in an order that does not depend on time.
  std::map<Kind, std::uint64_t> counts_;
  std::uint64_t total_ = 0;
};

}  // namespace tessera::alloc
