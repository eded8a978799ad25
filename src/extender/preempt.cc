// Whom to evict: kube-scheduler proposes pods by sums of resources; only the books know whether their GPUs
// would do.
#include <algorithm>
#include <bit>
#include <utility>

#include "alloc/placer.h"
#include "extender/decisions.h"
#include "json/escape.h"

namespace tessera::extender {

namespace {

// Up to so many GPU pods every subset is looked at, beyond it the least important are spared last.
constexpr std::size_t kExactVictims = 8;

// Orders subsets of equal size: the most important pod of each, then the next.
bool less_important(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  return std::ranges::lexicographical_compare(a, b);
}

}  // namespace

// By kube-scheduler's sums the pod fits as it is, so it names nobody; by the books it does not. Everybody on
// the node's GPUs who is less important may have to go. Newer kube-schedulers ask this, older never do.
std::vector<Victim> Decisions::less_important_holders(alloc::NodeId node, std::int64_t priority) const {
  std::vector<Victim> all;
  for (const alloc::PodHolding& holding : books_.ledger().holdings(node)) {
    const std::int64_t of_holder = books_.priority(holding.pod.uid);
    if (holding.bound && of_holder < priority) {
      all.push_back({.uid = holding.pod.uid, .has_priority = true, .priority = of_holder});
    }
  }
  return all;
}

std::optional<std::vector<Victim>> Decisions::needed_victims(const alloc::Request& request,
                                                             std::int64_t priority,
                                                             const NodeVictims& proposed) {
  const std::optional<alloc::NodeId> node = books_.ledger().find_node(proposed.node);
  if (!node || books_.is_foreign(*node)) {
    return std::nullopt;
  }
  // Pods without GPUs are kube-scheduler's choice: it needs their ports, CPUs or places, and we know nothing
  // better. Pods of other nodes are nobody we can speak about.
  std::vector<Victim> others;
  std::vector<Victim> holders;
  for (const Victim& victim :
       proposed.pods.empty() ? less_important_holders(*node, priority) : proposed.pods) {
    const std::optional<alloc::PodHolding> holding = books_.ledger().holding(victim.uid);
    const bool holds = holding && holding->node == *node && (holding->units > 0 || holding->whole > 0);
    Victim known = victim;
    known.priority = victim.has_priority ? victim.priority : books_.priority(victim.uid);
    (holds ? holders : others).push_back(std::move(known));
  }
  // Most important first: these are spared first.
  std::ranges::stable_sort(holders, std::ranges::greater{}, &Victim::priority);

  const auto fits_without = [&](const std::vector<const Victim*>& gone) {
    std::vector<std::string_view> uids;
    for (const Victim& victim : others) {
      uids.push_back(victim.uid);
    }
    for (const Victim* victim : gone) {
      uids.push_back(victim->uid);
    }
    const alloc::Absence absence = books_.ledger().without(uids);
    return books_.placer().reason(request, *node) == alloc::Reason::kFits &&
           request.shape.node.cpu_milli <= books_.ledger().states().cpu_left(*node) &&
           request.shape.node.memory_bytes <= books_.ledger().states().memory_left(*node);
  };

  std::vector<const Victim*> gone;
  for (const Victim& victim : holders) {
    gone.push_back(&victim);
  }
  if (!fits_without(gone)) {
    return std::nullopt;
  }
  if (others.empty() && fits_without({})) {
    // What they hold of GPUs, CPU and memory is not why they have to go: kube-scheduler wants a port, a place
    // or another device of theirs. Where it wants nobody, nobody has to go.
    return proposed.pods.empty() ? std::nullopt : std::optional(holders);
  }
  if (holders.size() <= kExactVictims) {
    std::vector<const Victim*> best = gone;
    std::vector<std::int64_t> best_priorities(gone.size() + 1);
    for (unsigned subset = 0; subset < 1U << holders.size(); ++subset) {
      const auto size = static_cast<std::size_t>(std::popcount(subset));
      if (size > best.size()) {
        continue;
      }
      std::vector<const Victim*> chosen;
      std::vector<std::int64_t> priorities;
      for (std::size_t i = 0; i < holders.size(); ++i) {
        if ((subset >> i & 1U) != 0) {
          chosen.push_back(&holders[i]);
          priorities.push_back(holders[i].priority);
        }
      }
      // Among equals the later ones: kube-scheduler lists those first that run longer.
      const bool better = size < best.size() || !less_important(best_priorities, priorities);
      if (better && fits_without(chosen)) {
        best = std::move(chosen);
        best_priorities = std::move(priorities);
      }
    }
    gone = std::move(best);
  } else {
    for (const Victim& victim : holders) {
      std::vector<const Victim*> fewer;
      std::ranges::copy_if(gone, std::back_inserter(fewer),
                           [&](const Victim* one) { return one != &victim; });
      if (fits_without(fewer)) {
        gone = std::move(fewer);
      }
    }
  }
  std::vector<Victim> needed = std::move(others);
  for (const Victim* victim : gone) {
    needed.push_back(*victim);
  }
  return needed;
}

Decisions::PreemptSummary Decisions::preempt(const PreemptArgs& args, std::string& out) {
  const WaitingPod pod = books_.waiting_pod(args.pod);
  PreemptSummary summary{.proposed = args.nodes.size()};
  out += R"({"NodeNameToMetaVictims":{)";
  for (const NodeVictims& proposed : args.nodes) {
    if (!pod.request) {
      break;
    }
    const std::optional<std::vector<Victim>> needed =
        needed_victims(*pod.request, args.pod.priority, proposed);
    // kube-scheduler takes a node without victims for a mistake.
    if (!needed || needed->empty()) {
      continue;
    }
    out += summary.kept++ == 0 ? "" : ",";
    summary.spared += proposed.pods.size() - std::min(needed->size(), proposed.pods.size());
    json::append_quoted(out, proposed.node);
    out += R"(:{"Pods":[)";
    bool first = true;
    for (const Victim& victim : *needed) {
      out += std::exchange(first, false) ? R"({"UID":)" : R"(,{"UID":)";
      json::append_quoted(out, victim.uid);
      out += '}';
    }
    // Which of the pods have a budget is not told; never claim fewer violations than there may be.
    out += R"(],"NumPDBViolations":)";
    json::append_number(out, std::min(proposed.pdb_violations, static_cast<std::int64_t>(needed->size())));
    out += '}';
  }
  out += "}}";
  return summary;
}

}  // namespace tessera::extender
