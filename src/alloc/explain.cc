#include "alloc/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

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
  for (const PodHolding::Part& part : holding.parts) {
    if (part.slot == static_cast<int>(slot)) {
      return part.units;
    }
  }
  return 0;
}

bool is_on(const PodHolding& holding, unsigned slot) {
  return std::ranges::any_of(holding.parts,
                             [slot](const auto& part) { return part.slot == static_cast<int>(slot); });
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

// Who on a GPU must end so that `missing` more units are free: one pod if any alone is large enough, the
// smallest such; else the largest ones.
std::vector<PodHolding> blockers_on(std::vector<PodHolding> holdings, unsigned slot, std::uint64_t missing) {
  std::erase_if(holdings, [slot](const auto& holding) { return units_on(holding, slot) == 0; });
  std::ranges::sort(holdings, {}, [slot](const auto& holding) {
    return std::tuple(units_on(holding, slot), holding.pod.pod_namespace, holding.pod.name, holding.pod.uid);
  });
  std::vector<PodHolding> ending;
  for (const PodHolding& holding : holdings) {
    if (units_on(holding, slot) >= missing) {
      return {holding};
    }
  }
  std::uint64_t freed = 0;
  for (auto holding = holdings.rbegin(); holding != holdings.rend() && freed < missing; ++holding) {
    freed += units_on(*holding, slot);
    ending.push_back(*holding);
  }
  return freed >= missing ? ending : std::vector<PodHolding>();
}

void explain_share(const Ledger& ledger, const Request& request, const NodeView& view, Explanation& why) {
  const Unit unit = ledger.options().unit;
  const std::uint32_t units = request.shape.share.units;
  std::optional<unsigned> best;
  for (unsigned slot = 0; slot < view.size(); ++slot) {
    const bool well = (view.healthy & topology::gpu_bit(slot)) != 0;
    const bool better = !best || view.free[slot] > view.free[*best];
    if (well && view.total[slot] >= units && better) {
      best = slot;
    }
  }
  if (!best) {
    why.text = fmt::format("no healthy GPU of it is as large as {}", unit.amount(units));
    return;
  }
  why.best_gpu = ledger.gpus(view.id)[*best].index;
  why.free_units = view.free[*best];
  why.short_units = units > view.free[*best] ? units - view.free[*best] : 0;
  const std::vector<PodHolding> holdings = ledger.holdings(view.id);
  const auto whole = std::ranges::find_if(holdings, [&](const PodHolding& holding) {
    return is_on(holding, *best) && units_on(holding, *best) == 0;
  });
  why.blockers =
      whole != holdings.end() ? std::vector{*whole} : blockers_on(holdings, *best, why.short_units);
  why.text = fmt::format("GPU {} has most, {} free of {}, and {} more is needed{}", *why.best_gpu,
                         unit.amount(why.free_units), unit.amount(view.total[*best]),
                         unit.amount(why.short_units), when_text(why.blockers, unit));
}

// The GPUs that fewest pods sit on are the next to become wholly free.
void explain_whole(const Ledger& ledger, const Request& request, const NodeView& view, Explanation& why) {
  const std::vector<PodHolding> holdings = ledger.holdings(view.id);
  why.free_gpus = topology::gpu_count(view.whole_free);
  why.short_gpus = request.shape.whole > why.free_gpus ? request.shape.whole - why.free_gpus : 0;
  std::vector<std::pair<std::size_t, unsigned>> taken;
  for (const unsigned slot : topology::GpuIndices(view.healthy & ~view.whole_free)) {
    const auto pods =
        std::ranges::count_if(holdings, [slot](const auto& holding) { return is_on(holding, slot); });
    taken.emplace_back(static_cast<std::size_t>(pods), slot);
  }
  std::ranges::sort(taken);
  if (taken.size() >= why.short_gpus) {
    for (const PodHolding& holding : holdings) {
      const auto end = taken.begin() + static_cast<std::ptrdiff_t>(why.short_gpus);
      if (std::any_of(taken.begin(), end, [&](const auto& next) { return is_on(holding, next.second); })) {
        why.blockers.push_back(holding);
      }
    }
  }
  why.text = fmt::format("{} of its {} GPUs {} wholly free, {} more {} needed{}", why.free_gpus, view.size(),
                         why.free_gpus == 1 ? "is" : "are", why.short_gpus,
                         why.short_gpus == 1 ? "is" : "are", when_text(why.blockers, ledger.options().unit));
}

std::string unhealthy_text(const Ledger& ledger, const NodeView& view) {
  const GpuMask ill = topology::first_gpus(view.size()) & ~view.healthy;
  if (ill == 0) {
    return "";
  }
  const std::string_view first = ledger.unhealthy(view.id, topology::lowest_gpu(ill));
  return fmt::format("GPU {} unhealthy: {}", gpu_indices(ledger, view.id, ill), first);
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
    case Reason::kContainersDoNotFit:
      explain_share(ledger, request, view, why);
      break;
    case Reason::kTooFewWholeGpus:
      explain_whole(ledger, request, view, why);
      break;
    case Reason::kUnhealthy:
      why.text = unhealthy_text(ledger, view);
      return why;
    default:
      why.text = ledger.fence_text(node).empty() ? why.phrase : std::string(ledger.fence_text(node));
      break;
  }
  if (const std::string ill = unhealthy_text(ledger, view); !ill.empty() && why.reason != Reason::kFits) {
    why.text += "; " + ill;
  }
  return why;
}

FreeSummary free_summary(const Ledger& ledger) {
  FreeSummary sum;
  for (const NodeId id : ledger.nodes()) {
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
