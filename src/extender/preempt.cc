// Whom to evict: kube-scheduler proposes pods by sums of resources; only the ledger knows whether their GPUs
// would do.
#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "alloc/placer.h"
#include "extender/budgets.h"
#include "extender/decisions.h"
#include "json/escape.h"

namespace tessera::extender {

using topology::GpuMask;

namespace {

// Up to so many GPU pods every subset is looked at, beyond it the most important are spared one by one.
constexpr std::size_t kExactVictims = 8;

// A proposed victim that is on the node's GPUs.
struct Holder {
  const Victim* victim = nullptr;
  GpuMask gpus = 0;
  Budgets::Covering budgets{};
};

// Most important first, and of equals those that run longer, who were proposed before.
using Chosen = std::vector<const Holder*>;
using FitsWithout = std::function<bool(const Chosen&)>;

std::size_t violations(const Chosen& gone) {
  std::vector<const Budgets::Covering*> budgets;
  for (const Holder* holder : gone) {
    budgets.push_back(&holder->budgets);
  }
  return Budgets::violations(budgets);
}

// Fewer against a budget; then fewer; of equally few the less important, compared from the most important
// down; of equals the later ones, which run shorter.
bool better(const Chosen& a, const Chosen& b) {
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

// `all` together would do.
Chosen best_subset(const Chosen& all, const FitsWithout& fits_without) {
  Chosen best = all;
  const bool budgets = violations(all) > 0;  // else the fewest are best
  for (unsigned subset = 0; subset < 1U << all.size(); ++subset) {
    if (!budgets && static_cast<std::size_t>(std::popcount(subset)) > best.size()) {
      continue;
    }
    Chosen chosen;
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

// First those whom a budget that is used up protects.
Chosen spare_one_by_one(const Chosen& all, const FitsWithout& fits_without) {
  Chosen best = all;
  Chosen order = all;
  std::ranges::stable_partition(order, [](const Holder* holder) { return violations({holder}) > 0; });
  for (const Holder* holder : order) {
    Chosen fewer;
    std::ranges::copy_if(best, std::back_inserter(fewer), [&](const Holder* one) { return one != holder; });
    if (fits_without(fewer)) {
      best = std::move(fewer);
    }
  }
  return best;
}

Chosen fewest(const Chosen& all, const FitsWithout& fits_without) {
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

// By kube-scheduler's sums the pod fits as it is, so it names nobody; by the ledger it does not. Everybody on
// the node's GPUs who is less important may have to go. Newer kube-schedulers ask this, older never do.
std::vector<Victim> Decisions::less_important_holders(alloc::NodeId node, std::int64_t priority) const {
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
                                                                  const NodeVictims& proposed) {
  const std::optional<alloc::NodeId> node = state_.ledger().find_node(proposed.node);
  if (!node) {
    return std::nullopt;
  }
  std::vector<Victim> all = proposed.pods.empty() ? less_important_holders(*node, priority) : proposed.pods;
  // Pods without GPUs are kube-scheduler's choice: it needs their ports, CPUs or places, and we know nothing
  // better. Pods of other nodes are nobody we can speak about.
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
  const auto fits_without = [&](const Chosen& gone) {
    std::vector<std::string_view> uids = others;
    for (const Holder* holder : gone) {
      uids.push_back(holder->victim->uid);
    }
    return state_.placer().fits_without(request, *node, uids, /*check_cpu_and_memory=*/true);
  };
  const auto holders_on = [&](GpuMask gpus) {
    Chosen there;
    for (const Holder& holder : holders) {
      if (gpus == 0 || (holder.gpus & gpus) != 0) {
        there.push_back(&holder);
      }
    }
    std::ranges::stable_sort(there, std::ranges::greater{},
                             [](const Holder* holder) { return holder->victim->priority; });
    return there;
  };

  const Chosen everybody = holders_on(0);
  if (!fits_without(everybody)) {
    return std::nullopt;
  }
  if (fits_without({})) {
    // What they hold of GPUs, CPU and memory is not why they have to go: kube-scheduler names nobody whom its
    // own filters could spare, so it wants a port, a place or another device of theirs. Where it wants
    // nobody, nobody has to go.
    if (proposed.pods.empty()) {
      return std::nullopt;
    }
    return NeededVictims{.pods = std::move(all), .pdb_violations = proposed.pdb_violations};
  }
  Chosen gone = fewest(everybody, fits_without);
  // Sparing one by one does not see that one pod on this GPU would do instead of ten on that one.
  if (everybody.size() > kExactVictims && wants_one_gpu(request)) {
    for (unsigned slot = 0; slot < state_.ledger().states().gpus(*node); ++slot) {
      const Chosen there = holders_on(topology::gpu_bit(slot));
      if (!fits_without(there)) {
        continue;
      }
      if (Chosen enough = fewest(there, fits_without); better(enough, gone)) {
        gone = std::move(enough);
      }
    }
  }
  NeededVictims needed;
  // In the order they came in: kube-scheduler takes the first for the most important.
  for (const Victim& victim : all) {
    const bool spared = std::ranges::any_of(everybody, [&](const Holder* holder) {
      return holder->victim == &victim && std::ranges::find(gone, holder) == gone.end();
    });
    if (!spared) {
      needed.pods.push_back(victim);
    }
  }
  const auto most = static_cast<std::int64_t>(needed.pods.size());
  if (state_.budgets().known()) {
    // Of pods without GPUs kube-scheduler's count is all that is known: what the others do not explain.
    const std::int64_t unexplained =
        proposed.pdb_violations - static_cast<std::int64_t>(violations(everybody));
    needed.pdb_violations =
        static_cast<std::int64_t>(violations(gone)) +
        std::clamp<std::int64_t>(unexplained, 0, static_cast<std::int64_t>(others.size()));
  } else {
    // Never claim fewer violations than there may be.
    needed.pdb_violations = proposed.pods.empty() ? most : std::min(proposed.pdb_violations, most);
  }
  return needed;
}

Decisions::PreemptSummary Decisions::preempt(const PreemptArgs& args, std::string& out) {
  const WaitingPod pod = state_.waiting_pod(args.pod);
  PreemptSummary summary{.proposed = args.nodes.size()};
  out += R"({"NodeNameToMetaVictims":{)";
  for (const NodeVictims& proposed : args.nodes) {
    if (!pod.request) {
      break;
    }
    const std::optional<NeededVictims> needed = needed_victims(*pod.request, args.pod.priority, proposed);
    // kube-scheduler takes a node without victims for a mistake.
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
  return summary;
}

}  // namespace tessera::extender
