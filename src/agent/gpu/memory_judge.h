// agent/gpu/memory_judge.h
//
// Decides what to do about containers that use more GPU memory than they requested. Pure: time and
// use are arguments.
//
// A container over its limit is reported at once, and reported again only after it was below for
// the grace time. With the policy to evict, it is evicted when it has been over for the whole grace
// time. A process of a pod that requests no GPU is reported and never evicted: it may be a daemon
// of the driver.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/gpu/usage.h"
#include "base/clock.h"
#include "base/result.h"

namespace tessera::agent {

enum class MemoryPolicy { kIgnore, kReport, kEvict };

// "ignore", "report" or "evict".
Result<MemoryPolicy> parse_memory_policy(std::string_view text);

struct MemoryRules {
  MemoryPolicy policy = MemoryPolicy::kReport;
  std::chrono::milliseconds grace{30'000};
  // Tolerated above the request. For each process the driver counts a few hundred MiB that the
  // application does not see as its own.
  std::uint64_t slack_bytes = 0;
};

struct MemoryVerdict {
  enum class Kind {
    kOver,         // has just been found over its limit
    kUnrequested,  // the same, by a pod that requests no GPU
    kWithinLimit,  // has been below for the grace time
    kEvict,        // has been over for the grace time; repeated until it is gone
  };
  Kind kind = Kind::kOver;
  MemoryUse use;
};

class MemoryJudge {
 public:
  explicit MemoryJudge(MemoryRules rules) : rules_(rules) {}

  std::vector<MemoryVerdict> judge(const std::vector<MemoryUse>& uses, Clock::Steady now);

  // The number of containers over their limit at the last look.
  [[nodiscard]] std::size_t over() const;
  [[nodiscard]] bool is_over(const MemoryUse& use) const;

 private:
  struct Case {
    Clock::Steady over_since{};
    Clock::Steady last_over{};
    bool over = false;  // at the last look
  };
  using Key = std::pair<ContainerName, std::string>;  // and the GPU

  [[nodiscard]] bool exceeds(const MemoryUse& use) const;

  const MemoryRules rules_;
  std::map<Key, Case> cases_;
};

}  // namespace tessera::agent
