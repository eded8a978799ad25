#include "cli/savings/packing.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "alloc/ledger.h"
#include "alloc/placer.h"

namespace tessera::cli {

namespace {

using alloc::NodeId;
using alloc::Request;

// After this many tries, all pods that could share stay whole. Each try keeps at least one more pod
// whole, and one or two tries are usual.
constexpr int kMostTries = 16;

Request whole_request(const alloc::PodSpec& pod, std::int64_t gpus) {
  alloc::Shape shape;
  shape.whole = static_cast<std::uint16_t>(std::clamp<std::int64_t>(gpus, 0, topology::kMaxGpus));
  shape.node = alloc::NodeUse::of_pod(pod);
  return Request::of_shape(shape);
}

alloc::PodKey key_of(const alloc::PodSpec& pod) {
  return {.namespace_name = pod.namespace_name, .name = pod.name, .uid = pod.uid};
}

// One try: an empty ledger that pods are placed on.
class Attempt {
 public:
  Attempt(const PackInput& input, alloc::Policy policy)
      : input_(input),
        ledger_({.unit = input.unit, .names = input.names}),
        keeper_(ledger_),
        placer_(ledger_, {.share_policy = policy, .check_cpu_and_memory = true}) {
    for (const PlanNode& node : input.nodes) {
      ledger_.upsert_node(node.spec);
      ids_.push_back(*ledger_.find_node(node.name()));
    }
    for (const std::vector<std::size_t>& list : input.candidates) {
      std::vector<NodeId>& ids = candidates_.emplace_back();
      for (const std::size_t node : list) {
        ids.push_back(ids_[node]);
      }
    }
    if (policy == alloc::Policy::kFgd) {
      alloc::RequestHistogram requests;
      for (const SharingPod& pod : input.sharing) {
        requests.add(pod.request);
      }
      placer_.set_typical(requests.typical());
    }
  }

  // Keeps a pod on its node. CPU and memory are not checked, because the pod runs there already.
  void keep(const FixedPod& pod, std::vector<std::string>& warnings) {
    if (pod.has_record) {
      ledger_.upsert_pod(*pod.spec);
      const auto holding = ledger_.holding(pod.spec->uid);
      if (holding && holding->decided) {
        return;
      }
      ledger_.remove_pod(pod.spec->uid);
    }
    auto request = pod.gpus > 0 ? Result<Request>(whole_request(*pod.spec, pod.gpus))
                                : Request::of_pod(*pod.spec, input_.names);
    const Status kept = request ? reserve(*request, *pod.spec, keeper_.choose(*request, ids_[pod.node]))
                                : Status(fail(request.error()));
    if (!kept) {
      warnings.push_back(fmt::format("pod {}/{} is not counted: node {} has no room for its GPUs: {}",
                                     pod.spec->namespace_name, pod.spec->name, input_.nodes[pod.node].name(),
                                     kept.error().text()));
    }
  }

  // Places a pod as a share. Returns false if it fits nowhere.
  bool share(const SharingPod& pod, std::optional<Packing::Place>& place) {
    auto choice = placer_.choose_best(pod.request, candidates_[pod.candidates]);
    if (!choice) {
      return false;
    }
    const auto node = std::ranges::find(ids_, choice->node) - ids_.begin();
    const auto slot = static_cast<unsigned>(std::countr_zero(choice->share_gpus));
    if (!reserve(pod.request, *pod.spec, std::move(choice))) {
      return false;
    }
    place = Packing::Place{.node = static_cast<std::size_t>(node), .slot = slot};
    return true;
  }

  void describe(Packing& packing) const {
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      std::vector<SlotUse>& slots = packing.slots.emplace_back();
      std::vector<std::uint32_t>& units = packing.used_units.emplace_back();
      std::vector<std::uint32_t>& core = packing.used_core.emplace_back();
      const alloc::NodeView view = ledger_.view(ids_[i]);
      packing.left.push_back({.cpu_milli = view.cpu_milli_left, .memory_bytes = view.memory_bytes_left});
      for (unsigned slot = 0; slot < input_.nodes[i].gpus.size(); ++slot) {
        const alloc::GpuLoad load = ledger_.states().gpu_load(ids_[i], slot);
        slots.push_back(load.whole > 0                            ? SlotUse::kWhole
                        : load.units > 0 || load.core_percent > 0 ? SlotUse::kShared
                                                                  : SlotUse::kFree);
        units.push_back(static_cast<std::uint32_t>(load.units));
        core.push_back(load.core_percent);
      }
    }
  }

 private:
  Status reserve(const Request& request, const alloc::PodSpec& pod, Result<alloc::Choice> choice) {
    const alloc::Choice chosen = TRY(std::move(choice));
    alloc::Hold hold = TRY(ledger_.reserve(key_of(pod), request, chosen));
    hold.commit();
    return {};
  }

  const PackInput& input_;
  alloc::Ledger ledger_;
  alloc::Placer keeper_;
  alloc::Placer placer_;
  std::vector<NodeId> ids_;  // by position in PackInput::nodes
  std::vector<std::vector<NodeId>> candidates_;
};

}  // namespace

std::int64_t Packing::gpus() const {
  std::int64_t count = 0;
  for (const std::vector<SlotUse>& node : slots) {
    count += std::ranges::count_if(node, [](SlotUse use) { return use != SlotUse::kFree; });
  }
  return count;
}

Packing pack(const PackInput& input, alloc::Policy policy, std::span<const std::size_t> order) {
  std::vector<std::uint8_t> shares(input.sharing.size(), 0);
  for (const std::size_t position : order) {
    shares[position] = 1;
  }
  for (int tries = 0;; ++tries) {
    Packing packing;
    packing.places.resize(input.sharing.size());
    Attempt attempt(input, policy);
    std::vector<FixedPod> kept = input.fixed;
    for (std::size_t i = 0; i < input.sharing.size(); ++i) {
      const SharingPod& pod = input.sharing[i];
      if (shares[i] == 0) {
        kept.push_back({.node = pod.node, .spec = pod.spec, .gpus = 1, .has_record = pod.has_record});
      }
    }
    // Records say which GPUs a pod has. Pods without one then take GPUs that are left.
    std::ranges::stable_sort(kept, std::ranges::greater(), &FixedPod::has_record);
    for (const FixedPod& pod : kept) {
      attempt.keep(pod, packing.warnings);
    }
    bool complete = true;
    for (const std::size_t position : order) {
      if (shares[position] != 0 && !attempt.share(input.sharing[position], packing.places[position])) {
        shares[position] = 0;
        complete = false;
      }
    }
    if (complete) {
      attempt.describe(packing);
      return packing;
    }
    if (tries == kMostTries) {
      std::ranges::fill(shares, 0);
    }
  }
}

}  // namespace tessera::cli
