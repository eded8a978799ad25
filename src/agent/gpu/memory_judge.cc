#include "agent/gpu/memory_judge.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/strings.h"

namespace tessera::agent {

Result<MemoryPolicy> parse_memory_policy(std::string_view text) {
  if (text == "ignore") {
    return MemoryPolicy::kIgnore;
  }
  if (text == "report") {
    return MemoryPolicy::kReport;
  }
  if (text == "evict") {
    return MemoryPolicy::kEvict;
  }
  return fail(ErrorCode::kInvalid,
              fmt::format("{} is not a memory policy; use ignore, report or evict", in_quotes(text)));
}

bool MemoryJudge::exceeds(const MemoryUse& use) const {
  return rules_.policy != MemoryPolicy::kIgnore && use.allowed_bytes && use.used_bytes > 0 &&
         use.used_bytes > *use.allowed_bytes + rules_.slack_bytes;
}

std::vector<MemoryVerdict> MemoryJudge::judge(const std::vector<MemoryUse>& uses, Clock::Steady now) {
  using Kind = MemoryVerdict::Kind;
  std::vector<MemoryVerdict> verdicts;
  std::set<Key> seen;
  for (const MemoryUse& use : uses) {
    const Key key{use.who, use.gpu};
    seen.insert(key);
    const auto found = cases_.find(key);
    const bool unrequested = use.who.pod.name.empty();
    if (exceeds(use)) {
      if (found == cases_.end()) {
        cases_[key] = {.over_since = now, .last_over = now, .over = true};
        verdicts.push_back({.kind = unrequested ? Kind::kUnrequested : Kind::kOver, .use = use});
        continue;
      }
      Case& known = found->second;
      if (!known.over) {
        known.over_since = now;
      }
      known.over = true;
      known.last_over = now;
      if (rules_.policy == MemoryPolicy::kEvict && !unrequested && now - known.over_since >= rules_.grace) {
        verdicts.push_back({.kind = Kind::kEvict, .use = use});
      }
    } else if (found != cases_.end()) {
      found->second.over = false;
      if (now - found->second.last_over >= rules_.grace) {
        cases_.erase(found);
        // A pod that requests no GPU has no limit to be within, and its name is unknown.
        if (!unrequested) {
          verdicts.push_back({.kind = Kind::kWithinLimit, .use = use});
        }
      }
    }
  }
  // Forget containers that are gone or no longer use that GPU.
  std::erase_if(cases_, [&](const auto& entry) { return !seen.contains(entry.first); });
  return verdicts;
}

std::size_t MemoryJudge::over() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(cases_, [](const auto& entry) { return entry.second.over; }));
}

bool MemoryJudge::is_over(const MemoryUse& use) const {
  const auto found = cases_.find({use.who, use.gpu});
  return found != cases_.end() && found->second.over;
}

}  // namespace tessera::agent
