// Chooses the victims of a preemption. kube-scheduler proposes pods by the total resources of a
// node; only the ledger knows whether evicting them makes room on the right GPUs.
#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "alloc/placer.h"
#include "alloc/search_budget.h"
#include "extender/budgets.h"
#include "extender/decisions.h"
#include "json/escape.h"

namespace tessera::extender {

using topology::GpuMask;

namespace {

// With up to this many GPU pods, all subsets are tried. With more, spare_one_by_one() decides.
constexpr std::size_t kExactVictims = 8;

// A proposed victim that holds GPUs of the node.
struct Holder {
  const Victim* victim = nullptr;
  GpuMask gpus = 0;
  Budgets::Covering budgets{};
};

// Sorted by priority, highest first, then in the order of the proposal, which has pods that run
// longer first.
using Holders = std::vector<const Holder*>;
// Returns whether the pod fits if these pods are evicted.
using FitsWithout = std::function<bool(const Holders&)>;

std::size_t violations(const Holders& gone) {
  std::vector<const Budgets::Covering*> budgets;
  for (const Holder* holder : gone) {
    budgets.push_back(&holder->budgets);
  }
  return Budgets::violations(budgets);
}

// Returns whether evicting `a` is better than evicting `b`: fewer violations of budgets, then fewer
// pods, then lower priorities (compared from the highest down), then pods that were proposed later,
// which have run for a shorter time.
bool better(const Holders& a, const Holders& b) {
  const std::size_t violated_a = violations(a);
  const std::size_t violated_b = violations(b);
  if (violated_a != violated_b) {
    return violated_a < violated_b;
  }
  if (a.size() != b.size()) {
    return a.size() < b.size();
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i]->victim->priority != b[i]->victim->priority) {
      return a[i]->victim->priority < b[i]->victim->priority;
    }
  }
  return std::ranges::lexicographical_compare(b, a);
}

// Returns the best pods to evict among all subsets of `all`. Evicting `all` must suffice.
Holders best_subset(const Holders& all, const FitsWithout& fits_without) {
  Holders best = all;
  const bool budgets = violations(all) > 0;  // if not, a larger subset cannot be better
  for (unsigned subset = 0; subset < 1U << all.size(); ++subset) {
    if (!budgets && static_cast<std::size_t>(std::popcount(subset)) > best.size()) {
      continue;
    }
    Holders chosen;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((subset >> i & 1U) != 0) {
        chosen.push_back(all[i]);
      }
    }
    if (better(chosen, best) && fits_without(chosen)) {
      best = std::move(chosen);
    }
  }
  return best;
}

// Returns `all` without the pods that need not be evicted. Tries to spare each pod once: first pods
// that an exhausted budget protects, then by priority, highest first. Evicting `all` must suffice.
Holders spare_one_by_one(const Holders& all, const FitsWithout& fits_without) {
  Holders best = all;
  Holders order = all;
  std::ranges::stable_partition(order, [](const Holder* holder) { return violations({holder}) > 0; });
  for (const Holder* holder : order) {
    Holders fewer;
    std::ranges::copy_if(best, std::back_inserter(fewer), [&](const Holder* one) { return one != holder; });
    if (fits_without(fewer)) {
      best = std::move(fewer);
    }
  }
  return best;
}

Holders least_harm(const Holders& all, const FitsWithout& fits_without) {
  return all.size() <= kExactVictims ? best_subset(all, fits_without) : spare_one_by_one(all, fits_without);
}

GpuMask gpus_of(const alloc::PodHolding& holding) {
  GpuMask gpus = 0;
  for (const alloc::HeldShare& held : holding.shares) {
    gpus |= held.slot >= 0 ? topology::gpu_bit(static_cast<unsigned>(held.slot)) : 0;
  }
  return gpus;
}

bool wants_one_gpu(const alloc::Request& request) {
  return !request.has_several_parts() && request.shape.whole + request.shape.share.gpus == 1;
}

}  // namespace

// Used if kube-scheduler proposes no victim, because the pod fits by total resources but not on any
// GPU. Only newer kube-schedulers send such calls.
std::vector<Victim> Decisions::lower_priority_holders(alloc::NodeId node, std::int64_t priority) const {
  std::vector<Victim> all;
  for (const alloc::PodHolding& holding : state_.ledger().holdings(node)) {
    const std::int64_t of_holder = state_.priority(holding.pod.uid);
    if (holding.bound && of_holder < priority) {
      all.push_back({.uid = holding.pod.uid, .has_priority = true, .priority = of_holder});
    }
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &Victim::priority);
  return all;
}

std::optional<Decisions::NeededVictims> Decisions::needed_victims(const alloc::Request& request,
                                                                  std::int64_t priority,
                                                                  const NodeVictims& proposed,
                                                                  alloc::SearchBudget& budget) {
  const std::optional<alloc::NodeId> node = state_.ledger().find_node(proposed.node);
  if (!node) {
    return std::nullopt;
  }
  std::vector<Victim> all = proposed.pods.empty() ? lower_priority_holders(*node, priority) : proposed.pods;
  // Pods without GPUs stay victims: kube-scheduler needs their ports, CPU or pod slots, which the
  // ledger does not know. Pods that the ledger does not have on this node stay victims, too.
  std::vector<std::string_view> others;
  std::vector<Holder> holders;
  for (Victim& victim : all) {
    victim.priority = victim.has_priority ? victim.priority : state_.priority(victim.uid);
    const std::optional<alloc::PodHolding> holding = state_.ledger().holding(victim.uid);
    if (holding && holding->node == *node && (holding->units > 0 || holding->whole > 0)) {
      holders.push_back({&victim, gpus_of(*holding), state_.budgets().covering(holding->pod)});
    } else {
      others.push_back(victim.uid);
    }
  }
  const auto fits_without = [&](const Holders& gone) {
    std::vector<std::string_view> uids = others;
    for (const Holder* holder : gone) {
      uids.push_back(holder->victim->uid);
    }
    return state_.placer().fits_without(request, *node, uids, budget, /*check_cpu_and_memory=*/true);
  };
  const auto holders_on = [&](GpuMask gpus) {
    Holders there;
    for (const Holder& holder : holders) {
      if (gpus == 0 || (holder.gpus & gpus) != 0) {
        there.push_back(&holder);
      }
    }
    std::ranges::stable_sort(there, std::ranges::greater{},
                             [](const Holder* holder) { return holder->victim->priority; });
    return there;
  };

  const Holders all_holders = holders_on(0);
  if (!fits_without(all_holders)) {
    return std::nullopt;
  }
  if (fits_without({})) {
    // The pod fits without evicting GPU pods. kube-scheduler proposes only pods that its own
    // filters cannot spare, so it needs something else of them, such as a port or another device.
    // If it proposed none, no pod has to be evicted.
    if (proposed.pods.empty()) {
      return std::nullopt;
    }
    return NeededVictims{.pods = std::move(all), .pdb_violations = proposed.pdb_violations};
  }
  Holders gone = least_harm(all_holders, fits_without);
  // spare_one_by_one() may miss that one pod on this GPU suffices instead of ten on another. So try
  // each GPU separately.
  if (all_holders.size() > kExactVictims && wants_one_gpu(request)) {
    for (unsigned slot = 0; slot < state_.ledger().states().gpus(*node); ++slot) {
      const Holders there = holders_on(topology::gpu_bit(slot));
      if (!fits_without(there)) {
        continue;
      }
      if (Holders enough = least_harm(there, fits_without); better(enough, gone)) {
        gone = std::move(enough);
      }
    }
  }
  NeededVictims needed;
  // Keep the order of the request: kube-scheduler treats the first victim as the most important.
  for (const Victim& victim : all) {
    const bool spared = std::ranges::any_of(all_holders, [&](const Holder* holder) {
      return holder->victim == &victim && std::ranges::find(gone, holder) == gone.end();
    });
    if (!spared) {
      needed.pods.push_back(victim);
    }
  }
  const auto most = static_cast<std::int64_t>(needed.pods.size());
  if (state_.budgets().known()) {
    // For pods without GPUs, use the part of kube-scheduler's count that GPU pods do not explain.
    const std::int64_t unexplained =
        proposed.pdb_violations - static_cast<std::int64_t>(violations(all_holders));
    needed.pdb_violations =
        static_cast<std::int64_t>(violations(gone)) +
        std::clamp<std::int64_t>(unexplained, 0, static_cast<std::int64_t>(others.size()));
  } else {
    // Never report fewer violations than there may be.
    needed.pdb_violations = proposed.pods.empty() ? most : std::min(proposed.pdb_violations, most);
  }
  return needed;
}

Decisions::PreemptSummary Decisions::preempt(const PreemptArgs& args, std::string& out) {
  const WaitingPod pod = state_.waiting_pod(args.pod);
  PreemptSummary summary{.proposed = args.nodes.size()};
  alloc::SearchBudget budget;
  out += R"({"NodeNameToMetaVictims":{)";
  for (const NodeVictims& proposed : args.nodes) {
    if (!pod.request) {
      break;
    }
    const std::optional<NeededVictims> needed =
        needed_victims(*pod.request, args.pod.priority, proposed, budget);
    // kube-scheduler treats a node without victims as an error.
    if (!needed || needed->pods.empty()) {
      continue;
    }
    out += summary.kept++ == 0 ? "" : ",";
    summary.spared += proposed.pods.size() - std::min(needed->pods.size(), proposed.pods.size());
    json::append_quoted(out, proposed.node);
    out += R"(:{"Pods":[)";
    bool first = true;
    for (const Victim& victim : needed->pods) {
      out += std::exchange(first, false) ? R"({"UID":)" : R"(,{"UID":)";
      json::append_quoted(out, victim.uid);
      out += '}';
    }
    out += R"(],"NumPDBViolations":)";
    json::append_number(out, needed->pdb_violations);
    out += '}';
  }
  out += "}}";
  summary.search_ended = budget.ever_ended();
  return summary;
}

}  // namespace tessera::extender
