#include "sim/policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "base/strings.h"
#include "sim/placer_policy.h"
#include "sim/reference_policies.h"

namespace tessera::sim {

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

}  // namespace

const std::vector<PolicyName>& policy_names() {
  static const std::vector<PolicyName> kNames = {
      {.name = "fgd", .about = "keeps free GPUs usable for typical pods"},
      {.name = "binpack", .about = "the fullest GPU and node that fit"},
      {.name = "spread", .about = "the emptiest GPU and node"},
      {.name = "FGD", .reference = true, .about = "fragmentation gradient descent as in the paper"},
      {.name = "BestFit", .reference = true, .about = "least CPU and GPU left"},
      {.name = "GpuPacking", .reference = true, .about = "shared GPUs, then used nodes, then idle ones"},
      {.name = "GpuClustering", .reference = true, .about = "nodes with pods of the same class"},
      {.name = "DotProd", .reference = true, .about = "least similar to the request"},
      {.name = "FirstFit", .reference = true, .about = "the first node of a fixed order"},
      {.name = "Random", .reference = true, .about = "any node, any GPU"},
  };
  return kNames;
}

Result<PolicyName> find_policy(std::string_view name) {
  const std::vector<PolicyName>& all = policy_names();
  if (const auto found = std::ranges::find(all, name, &PolicyName::name); found != all.end()) {
    return *found;
  }
  // "bestfit" can only mean BestFit; "Fgd" could mean fgd or FGD.
  const auto is_meant = [&](const PolicyName& one) { return lower(one.name) == lower(name); };
  if (std::ranges::count_if(all, is_meant) == 1) {
    return *std::ranges::find_if(all, is_meant);
  }
  std::vector<std::string> names;
  for (const PolicyName& one : all) {
    names.emplace_back(one.name);
  }
  return fail(ErrorCode::kInvalid, fmt::format("there is no policy {}; use {}; upper and lower case matter",
                                               in_quotes(name), join_words(names)));
}

std::unique_ptr<PlacementPolicy> make_policy(const PolicyName& name, const SimulatedCluster& cluster,
                                             const std::vector<PodKind>& kinds) {
  if (name.reference) {
    return make_reference_policy(name.name, cluster, kinds);
  }
  return std::make_unique<PlacerPolicy>(alloc::parse_policy(name.name).value(), cluster, kinds);
}

}  // namespace tessera::sim
