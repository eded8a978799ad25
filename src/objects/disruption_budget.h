// objects/disruption_budget.h
//
// A PodDisruptionBudget: which pods it covers, and how many of them may be evicted now.
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
  // One requirement of the selector. An entry of matchLabels becomes kIn with one value.
  struct Term {
    enum class Operator : std::uint8_t { kIn, kNotIn, kExists, kDoesNotExist };
    Operator operation = Operator::kIn;
    std::uint32_t key = 0;                // LabelHash::key
    std::vector<std::uint32_t> labels{};  // LabelHash::label, one for each value
  };

  std::vector<Term> selector{};  // a pod is covered if it meets all terms
  // Whether the budget has a selector. A budget without a selector covers no pod. A budget with an
  // empty selector covers all pods of the namespace.
  bool selects = false;
  std::int64_t allowed = 0;  // status.disruptionsAllowed
  // Names of pods that are being evicted. status.disruptionsAllowed already accounts for them.
  std::vector<std::string> disrupted{};

  // Returns whether the budget covers the pod with this name and these labels. Returns false for a
  // pod in `disrupted`. The caller checks that the pod is in the budget's namespace.
  [[nodiscard]] bool covers(std::string_view pod, std::span<const LabelHash> labels) const;
};

// Replaces `budget` and `meta` with what the object says. Returns kInvalid if a field has the wrong
// type, or if the selector has an unknown operator. `meta` then has the fields that were read
// before the error.
Status decode_disruption_budget(kube::ObjectJson& object, kube::ObjectMeta& meta, DisruptionBudget& budget);

}  // namespace tessera::objects
