// objects/disruption_budget.h
//
// What a PodDisruptionBudget promises: which pods it covers, and how many of them may be ended at the moment.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/object_sink.h"
#include "objects/label_hashes.h"

namespace tessera::objects {

struct DisruptionBudget {
  // One of matchExpressions; an entry of matchLabels is kIn with one value.
  struct Term {
    enum class Operator : std::uint8_t { kIn, kNotIn, kExists, kDoesNotExist };
    Operator operation = Operator::kIn;
    std::uint32_t key = 0;                // LabelHash::key
    std::vector<std::uint32_t> labels{};  // LabelHash::label, one for each value
  };

  std::vector<Term> selector{};  // all of them must hold
  bool selects = false;          // a budget without selector covers nobody, one with {} its whole namespace
  std::int64_t allowed = 0;      // status.disruptionsAllowed
  // Pods whose end is under way and has been counted.
  std::vector<std::string> disrupted{};

  // The pod must be of the budget's namespace.
  [[nodiscard]] bool covers(std::string_view pod, std::span<const LabelHash> labels) const;
};

// Fills `budget` anew. kInvalid as decode_pod().
Status decode_disruption_budget(kube::ObjectJson& object, kube::ObjectMeta& meta, DisruptionBudget& budget);

}  // namespace tessera::objects
