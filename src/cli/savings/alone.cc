#include "cli/savings/alone.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

namespace tessera::cli {

namespace {

constexpr std::uint32_t kAllCompute = 100;

// Returns what the pod lacks on a GPU of another pod. `moves`: the GPU is on another node.
std::set<Alone> lacking(const PackInput& input, const Packing& packing, const SharingPod& pod,
                        const Packing::Place& there, bool moves) {
  const alloc::Shape& shape = pod.request.shape;
  const std::uint32_t total = input.nodes[there.node].gpus[there.slot].units;
  std::set<Alone> limits;
  if (packing.used_units[there.node][there.slot] + shape.share.units > total) {
    limits.insert(Alone::kMemory);
  }
  if (packing.used_core[there.node][there.slot] + shape.share.core_percent > kAllCompute) {
    limits.insert(Alone::kUtilization);
  }
  if (moves && shape.node.cpu_milli > packing.left[there.node].cpu_milli) {
    limits.insert(Alone::kCpu);
  }
  if (moves && shape.node.memory_bytes > packing.left[there.node].memory_bytes) {
    limits.insert(Alone::kHostMemory);
  }
  return limits;
}

std::string one_text(Alone why, const SavingsRules& rules) {
  switch (why) {
    case Alone::kNoPartner:
      return "no other pod of its node pool and GPU model can share";
    case Alone::kConstraints:
      return "it may not run on the nodes of other pods that share (node selector, affinity, taint or "
             "cordon)";
    case Alone::kMemory:
      return "the GPUs of other pods have too little free memory";
    case Alone::kUtilization:
      return fmt::format("the utilization of a GPU would be above {:g}%", rules.gpu_utilization);
    case Alone::kCpu:
      return "the nodes of other pods have too little free CPU";
    case Alone::kHostMemory:
      return "the nodes of other pods have too little free host memory";
    case Alone::kPolicy:
      break;
  }
  return fmt::format("policy {} keeps pods apart", alloc::to_string(rules.policies.front()));
}

}  // namespace

std::vector<Alone> why_alone(const PackInput& input, const Packing& packing, std::size_t position) {
  const SharingPod& pod = input.sharing[position];
  const Packing::Place home = *packing.places[position];
  const std::size_t group = input.nodes[home.node].gpus[home.slot].group;
  const std::vector<std::size_t>& allowed = input.candidates[pod.candidates];
  bool partners = false;
  std::optional<std::size_t> fewest;
  std::set<Alone> limits;
  for (std::size_t node = 0; node < input.nodes.size(); ++node) {
    const bool may_run = std::ranges::find(allowed, node) != allowed.end();
    for (unsigned slot = 0; slot < input.nodes[node].gpus.size(); ++slot) {
      if (packing.slots[node][slot] != SlotUse::kShared || input.nodes[node].gpus[slot].group != group ||
          (node == home.node && slot == home.slot)) {
        continue;
      }
      partners = true;
      if (!may_run) {
        continue;
      }
      const std::set<Alone> here =
          lacking(input, packing, pod, {.node = node, .slot = slot}, node != home.node);
      if (!fewest || here.size() < *fewest) {
        fewest = here.size();
        limits.clear();
      }
      if (here.size() == *fewest) {
        limits.insert(here.begin(), here.end());
      }
    }
  }
  if (!fewest) {
    return {partners ? Alone::kConstraints : Alone::kNoPartner};
  }
  return limits.empty() ? std::vector{Alone::kPolicy} : std::vector(limits.begin(), limits.end());
}

std::string alone_text(const std::vector<Alone>& why, const SavingsRules& rules) {
  std::vector<std::string> parts;
  for (const Alone one : why) {
    parts.push_back(one_text(one, rules));
  }
  return fmt::format("{}", fmt::join(parts, ", or "));
}

std::string_view to_string(Alone why) {
  switch (why) {
    case Alone::kNoPartner:
      return "no_partner";
    case Alone::kConstraints:
      return "constraints";
    case Alone::kMemory:
      return "memory";
    case Alone::kUtilization:
      return "utilization";
    case Alone::kCpu:
      return "cpu";
    case Alone::kHostMemory:
      return "host_memory";
    case Alone::kPolicy:
      break;
  }
  return "policy";
}

}  // namespace tessera::cli
