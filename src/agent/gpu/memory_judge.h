// agent/gpu/memory_judge.h
//
// Decides what to do about containers that use more GPU memory than they requested. Pure: the
// caller passes the time and the memory use. The limit of a container on a GPU is the memory that
// it requested there, plus a tolerance (MemoryRules::slack_bytes).
//
// A container over its limit is reported immediately. It is reported again only after it has been
// within its limit for the grace time. With policy `evict`, the pod of a container is evicted when
// the container has been over its limit for the whole grace time. A pod that requests no GPU is
// reported but never evicted, because it may be a daemon of the driver.
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

// Parses "ignore", "report" or "evict".
Result<MemoryPolicy> parse_memory_policy(std::string_view text);

struct MemoryRules {
  MemoryPolicy policy = MemoryPolicy::kReport;
  std::chrono::milliseconds grace{30'000};
  // Tolerance above the request. The driver counts a few hundred MiB per process that the
  // application did not allocate itself.
  std::uint64_t slack_bytes = 0;
};

struct MemoryVerdict {
  enum class Kind {
    kOver,         // the container began to exceed its limit in this sample
    kUnrequested,  // like kOver, but the pod requests no GPU
    kWithinLimit,  // after kOver, the container has been within its limit for the grace time
    kEvict,        // the container has exceeded its limit for the whole grace time
  };
  Kind kind = Kind::kOver;
  MemoryUse use;
};

class MemoryJudge {
 public:
  explicit MemoryJudge(MemoryRules rules) : rules_(rules) {}

  // Returns what to do after a sample. Call it with every sample. kEvict is returned again with
  // every sample until the container is within its limit.
  std::vector<MemoryVerdict> judge(const std::vector<MemoryUse>& uses, Clock::Steady now);

  // The number of containers over their limit in the last sample.
  [[nodiscard]] std::size_t over() const;
  // Returns whether the container exceeded its limit on this GPU in the last sample.
  [[nodiscard]] bool is_over(const MemoryUse& use) const;

 private:
  struct Case {
    Clock::Steady over_since{};
    Clock::Steady last_over{};
    bool over = false;  // in the last sample
  };
  using Key = std::pair<ContainerName, std::string>;  // container, GPU UUID

  [[nodiscard]] bool exceeds(const MemoryUse& use) const;

  const MemoryRules rules_;
  std::map<Key, Case> cases_;
};

}  // namespace tessera::agent
