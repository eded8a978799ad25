#include "alloc/explain.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/strings.h"
#include "topology/gpu_mask.h"

namespace tessera::alloc {

namespace {

std::string gpu_indices(const Ledger& ledger, NodeId node, GpuMask slots) {
  GpuMask indices = 0;
  for (const unsigned slot : topology::GpuIndices(slots)) {
    const std::uint32_t index = ledger.gpus(node)[slot].index;
    indices |= index < topology::kMaxGpus ? topology::gpu_bit(index) : 0;
  }
  return topology::gpu_list(indices);
}

std::uint64_t units_on(const PodHolding& holding, unsigned slot) {
  for (const HeldShare& held : holding.shares) {
    if (held.slot == static_cast<int>(slot)) {
      return held.share.units;
    }
  }
  return 0;
}

bool is_on(const PodHolding& holding, unsigned slot) {
  return std::ranges::any_of(holding.shares,
                             [slot](const auto& held) { return held.slot == static_cast<int>(slot); });
}

// "ml/infer-1 (4GiB)", "ml/bert-0 (2 GPUs)".
std::string holder_text(const PodHolding& holding, Unit unit) {
  const std::string what = holding.whole == 0 ? unit.amount(holding.units)
                           : holding.units == 0
                               ? fmt::format("{} GPU{}", holding.whole, holding.whole > 1 ? "s" : "")
                               : fmt::format("{} GPUs and {}", holding.whole, unit.amount(holding.units));
  return fmt::format("{} ({})", holding.pod.text(), what);
}

std::string when_text(const std::vector<PodHolding>& blockers, Unit unit) {
  if (blockers.empty()) {
    return "";
  }
  std::vector<std::string> names;
  for (const PodHolding& blocker : blockers) {
    names.push_back(holder_text(blocker, unit));
  }
  return fmt::format("; it would fit when {} {}", join_words(names), names.size() == 1 ? "ends" : "end");
}

// Returns pods whose end frees `missing` more units on a GPU: the pod that holds the GPU whole;
// else the smallest pod that frees enough alone; else as few pods as possible, the last of them the
// smallest that suffices. Returns an empty list if all pods together do not free enough.
std::vector<PodHolding> blockers_on(std::vector<PodHolding> holdings, unsigned slot, std::uint64_t missing) {
  std::erase_if(holdings, [slot](const auto& holding) { return !is_on(holding, slot); });
  const auto whole =
      std::ranges::find_if(holdings, [slot](const auto& holding) { return units_on(holding, slot) == 0; });
  if (whole != holdings.end()) {
    return {*whole};
  }
  std::ranges::sort(holdings, {}, [slot](const auto& holding) {
    return std::tuple(units_on(holding, slot), holding.pod.namespace_name, holding.pod.name, holding.pod.uid);
  });
  std::vector<PodHolding> ending;
  std::uint64_t freed = 0;
  while (!holdings.empty() && freed < missing) {
    // The largest pod, or the smallest that frees the rest.
    const auto next = std::ranges::find_if(
        holdings, [&](const auto& holding) { return freed + units_on(holding, slot) >= missing; });
    const auto chosen = next == holdings.end() ? std::prev(holdings.end()) : next;
    freed += units_on(*chosen, slot);
    ending.push_back(*chosen);
    holdings.erase(chosen);
  }
  return freed >= missing ? ending : std::vector<PodHolding>();
}

// Compares sets of pods: fewer pods are less, then fewer whole GPUs, then less memory.
std::tuple<std::size_t, std::uint64_t, std::uint64_t> cost(const std::vector<PodHolding>& pods) {
  std::uint64_t whole = 0;
  std::uint64_t units = 0;
  for (const PodHolding& pod : pods) {
    whole += pod.whole;
    units += pod.units;
  }
  return {pods.size(), whole, units};
}

// Explains why one request does not fit on one node.
class Explainer {
 public:
  Explainer(const Ledger& ledger, Placer& placer, const Request& request, NodeId node)
      : ledger_(ledger),
        placer_(placer),
        request_(request),
        view_(ledger.view(node)),
        may_(placer.allowed(request, node)),
        holdings_(ledger.holdings(node)) {}

  // Too few GPUs have enough free.
  void explain_share(Explanation& why) const {
    const SharePart& share = request_.shape.share;
    std::vector<unsigned> slots = large_enough();
    if (slots.size() < share.gpus) {
      why.text = share.gpus == 1
                     ? fmt::format("no healthy GPU{} is as large as {}", allowed_text(), amount(share.units))
                     : fmt::format("fewer than {} healthy GPUs{} are as large as {}", share.gpus,
                                   allowed_text(), amount(share.units));
      return;
    }
    std::ranges::sort(slots, {},
                      [&](unsigned slot) { return std::tuple(!has_room(slot), ~view_.free[slot], slot); });
    const auto enough =
        static_cast<unsigned>(std::ranges::count_if(slots, [&](unsigned s) { return has_room(s); }));
    const std::vector<PodHolding> least = share.gpus == 1 ? least_blockers(slots) : std::vector<PodHolding>();
    slots.resize(share.gpus);
    const unsigned last = slots.back();
    why.best_gpu = ledger_.gpus(view_.id)[last].index;
    why.free_units = view_.free[last];
    why.short_units = missing_on(last);
    why.blockers = ending(least.empty() ? blockers_of_share(slots) : least);
    const std::string before =
        share.gpus == 1
            ? fmt::format("GPU {} has the most free memory{}", *why.best_gpu, of_the_allowed())
            : fmt::format("{} of {} GPUs{} {} enough free; of the others GPU {} has the most", enough,
                          share.gpus, allowed_text(), enough == 1 ? "has" : "have", *why.best_gpu);
    const std::string missing = why.short_units > 0
                                    ? fmt::format("{} more is needed", amount(why.short_units))
                                    : fmt::format("only {}% of its compute is free and {}% is needed",
                                                  view_.core_free[last], share.core_percent);
    why.text = fmt::format("{}, {} of {}; {}{}", before, amount(why.free_units), amount(view_.total[last]),
                           missing, when(why));
  }

  // Too few GPUs are wholly free. Names the GPUs on which the least must end.
  void explain_whole(Explanation& why) const {
    const GpuMask free = view_.whole_free & may_;
    const unsigned for_shares = taken_by_shares(free);
    why.free_gpus = topology::gpu_count(free);
    const unsigned needed = request_.shape.whole + for_shares;
    why.short_gpus = needed > why.free_gpus ? needed - why.free_gpus : 0;
    std::vector<std::pair<std::tuple<std::size_t, std::uint64_t, std::uint64_t>, unsigned>> taken;
    for (const unsigned slot : topology::GpuIndices(view_.healthy & may_ & ~free)) {
      std::vector<PodHolding> pods;
      std::ranges::copy_if(holdings_, std::back_inserter(pods),
                           [slot](const auto& holding) { return is_on(holding, slot); });
      taken.emplace_back(cost(pods), slot);
    }
    std::ranges::sort(taken);
    taken.resize(std::min<std::size_t>(taken.size(), why.short_gpus));
    std::vector<PodHolding> there;
    std::ranges::copy_if(holdings_, std::back_inserter(there), [&](const PodHolding& holding) {
      return std::ranges::any_of(taken, [&](const auto& next) { return is_on(holding, next.second); });
    });
    why.blockers = ending(std::move(there));
    const std::string shares =
        for_shares > 0 ? fmt::format("; the pod's share takes {} of them", for_shares) : std::string();
    why.text = fmt::format("{} of its {} GPUs{} {} wholly free{}; {} more {} needed{}", why.free_gpus,
                           topology::gpu_count(may_), allowed_text(), why.free_gpus == 1 ? "is" : "are",
                           shares, why.short_gpus, why.short_gpus == 1 ? "is" : "are", when(why));
  }

  // Each part fits alone, but not all together.
  void explain_parts(Explanation& why) const {
    why.blockers = ending({});
    why.text = "each container fits alone, but not all of them together" + when(why);
  }

 private:
  [[nodiscard]] std::string amount(std::uint64_t units) const { return ledger_.options().unit.amount(units); }
  // Restricts "GPUs" to those that the request allows.
  [[nodiscard]] std::string allowed_text() const {
    return request_.has_constraints() ? " that the pod's annotations allow" : "";
  }
  [[nodiscard]] std::string of_the_allowed() const {
    return request_.has_constraints() ? " of the GPUs" + allowed_text() : "";
  }
  [[nodiscard]] std::string when(const Explanation& why) const {
    return when_text(why.blockers, ledger_.options().unit);
  }

  [[nodiscard]] std::vector<unsigned> large_enough() const {
    std::vector<unsigned> slots;
    for (const unsigned slot : topology::GpuIndices(may_ & view_.healthy)) {
      if (view_.total[slot] >= request_.shape.share.units) {
        slots.push_back(slot);
      }
    }
    return slots;
  }

  [[nodiscard]] std::uint32_t missing_on(unsigned slot) const {
    const std::uint32_t units = request_.shape.share.units;
    return units > view_.free[slot] ? units - view_.free[slot] : 0;
  }

  [[nodiscard]] bool has_room(unsigned slot) const {
    return missing_on(slot) == 0 && view_.core_free[slot] >= request_.shape.share.core_percent;
  }

  // Returns how many of the wholly free GPUs the pod's shares would have to use.
  [[nodiscard]] unsigned taken_by_shares(GpuMask free) const {
    const unsigned wanted = request_.shape.share.gpus;
    unsigned elsewhere = 0;
    for (const unsigned slot : large_enough()) {
      elsewhere += (free & topology::gpu_bit(slot)) == 0 && has_room(slot) ? 1 : 0;
    }
    return wanted > elsewhere ? wanted - elsewhere : 0;
  }

  // Returns the blockers on those of `slots` that have too little free memory. Returns an empty
  // list if the pods on one of these GPUs cannot free enough.
  [[nodiscard]] std::vector<PodHolding> blockers_of_share(const std::vector<unsigned>& slots) const {
    std::vector<PodHolding> all;
    for (const unsigned slot : slots) {
      if (missing_on(slot) == 0) {
        continue;
      }
      const std::vector<PodHolding> there = blockers_on(holdings_, slot, missing_on(slot));
      if (there.empty()) {
        return {};
      }
      std::ranges::copy_if(there, std::back_inserter(all), [&](const PodHolding& holding) {
        return std::ranges::find(all, holding.pod, &PodHolding::pod) == all.end();
      });
    }
    return all;
  }

  // Returns the blockers of the GPU on which the least must end.
  [[nodiscard]] std::vector<PodHolding> least_blockers(const std::vector<unsigned>& slots) const {
    std::vector<PodHolding> least;
    for (const unsigned slot : slots) {
      std::vector<PodHolding> there = blockers_of_share({slot});
      if (!there.empty() && (least.empty() || cost(there) < cost(least))) {
        least = std::move(there);
      }
    }
    return least;
  }

  [[nodiscard]] bool fits_without(const std::vector<PodHolding>& pods) const {
    std::vector<std::string_view> uids;
    for (const PodHolding& pod : pods) {
      uids.push_back(pod.pod.uid);
    }
    return placer_.fits_without(request_, view_.id, uids, budget_);
  }

  // Returns pods whose end makes the whole request fit. Returns `likely` if those suffice.
  // Otherwise starts with all pods of the node and drops each pod that is not needed, the smallest
  // first.
  [[nodiscard]] std::vector<PodHolding> ending(std::vector<PodHolding> likely) const {
    if (!likely.empty() && fits_without(likely)) {
      return likely;
    }
    std::vector<PodHolding> all = holdings_;
    if (all.empty() || !fits_without(all)) {
      return {};
    }
    std::ranges::sort(all, {}, [](const PodHolding& holding) {
      return std::tuple(holding.whole, holding.units, holding.pod.text(), holding.pod.uid);
    });
    for (std::size_t i = 0; i < all.size();) {
      std::vector<PodHolding> fewer = all;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (fits_without(fewer)) {
        all = std::move(fewer);
      } else {
        ++i;
      }
    }
    return all;
  }

  const Ledger& ledger_;
  Placer& placer_;
  const Request& request_;
  NodeView view_;
  GpuMask may_;
  std::vector<PodHolding> holdings_;
  mutable SearchBudget budget_;
};

std::string unhealthy_text(const Ledger& ledger, const NodeView& view) {
  const GpuMask unhealthy = topology::first_gpus(view.size()) & ~view.healthy;
  if (unhealthy == 0) {
    return "";
  }
  const std::string_view first = ledger.unhealthy(view.id, topology::lowest_gpu(unhealthy));
  return fmt::format("GPU {} unhealthy: {}", gpu_indices(ledger, view.id, unhealthy), first);
}

}  // namespace

Explanation explain(const Ledger& ledger, Placer& placer, const Request& request, NodeId node) {
  Explanation why;
  why.reason = placer.reason(request, node);
  why.phrase = phrase(why.reason, request, ledger.options().unit, ledger.options().names);
  const NodeView view = ledger.view(node);
  switch (why.reason) {
    case Reason::kFits:
      why.text = "it fits";
      break;
    case Reason::kNoGpuWithEnoughFree:
    case Reason::kTooFewGpusWithEnoughFree:
      Explainer(ledger, placer, request, node).explain_share(why);
      break;
    case Reason::kTooFewWholeGpus:
      Explainer(ledger, placer, request, node).explain_whole(why);
      break;
    case Reason::kContainersDoNotFit:
      Explainer(ledger, placer, request, node).explain_parts(why);
      break;
    case Reason::kUnhealthy:
      why.text = unhealthy_text(ledger, view);
      return why;
    default:
      why.text = ledger.fence_text(node).empty() ? why.phrase : std::string(ledger.fence_text(node));
      break;
  }
  if (const std::string unhealthy = unhealthy_text(ledger, view);
      !unhealthy.empty() && why.reason != Reason::kFits) {
    why.text += "; " + unhealthy;
  }
  return why;
}

FreeSummary free_summary(const Ledger& ledger, std::span<const NodeId> nodes) {
  FreeSummary sum;
  for (const NodeId id : nodes) {
    if (ledger.states().fence(id) != Fence::kOpen) {
      continue;
    }
    const NodeView view = ledger.view(id);
    const unsigned whole = topology::gpu_count(view.whole_free);
    sum.units += view.free_units;
    sum.gpus_with_room +=
        static_cast<std::uint64_t>(std::ranges::count_if(view.free, [](auto f) { return f > 0; }));
    sum.whole_gpus += whole;
    sum.largest_units = std::max(sum.largest_units, ledger.states().largest_free(id));
    sum.largest_whole = std::max(sum.largest_whole, whole);
  }
  return sum;
}

}  // namespace tessera::alloc
