#include "cli/cluster/nodes_text.h"

#include <fmt/format.h>

#include <set>
#include <string_view>

#include "base/nearest_name.h"
#include "base/strings.h"
#include "cli/cluster/find_names.h"

namespace tessera::cli {

namespace {

constexpr std::size_t kMostListed = 8;

// Returns "a, b and c", or "a, b, ... and 5 more".
std::string listed(std::vector<std::string> names) {
  if (names.size() > kMostListed) {
    const std::size_t more = names.size() - kMostListed;
    names.resize(kMostListed);
    return fmt::format("{} and {} more", fmt::join(names, ", "), more);
  }
  return join_words(names);
}

// NVIDIA's plugin serves parts of a GPU as nvidia.com/mig-1g.5gb.
bool is_gpu(std::string_view resource) {
  return objects::looks_like_gpu(resource) || resource.starts_with("nvidia.com/mig-");
}

}  // namespace

Error no_such_node(const std::string& name, const std::vector<std::string>& names) {
  const std::vector<std::string_view> known(names.begin(), names.end());
  std::string advice = did_you_mean(name, known);
  if (advice.empty() && !names.empty()) {
    advice = (names.size() == 1 ? "; the only node is " : "; the nodes are ") + listed(names);
  }
  return {ErrorCode::kNotFound, fmt::format("node {} does not exist{}", in_quotes(name), advice)};
}

Error no_such_node(const ClusterOptions& options, const std::string& name) {
  return no_such_node(name, find_names({.kind = NameKind::kNodes,
                                        .file = options.file,
                                        .kubeconfig = options.kubeconfig,
                                        .context = options.context}));
}

std::string other_gpus_text(const Cluster& cluster) {
  std::set<std::string> resources;
  std::size_t nodes = 0;
  for (const objects::NodeFacts& node : cluster.nodes) {
    if (!node.spec.inventory.empty() || node.spec.original_gpus() > 0 || node.spec.gpu_memory_units > 0) {
      return "";
    }
    bool any = false;
    for (const auto& [resource, amount] : node.extended) {
      if (amount.capacity > 0 && is_gpu(resource)) {
        resources.insert(resource);
        any = true;
      }
    }
    nodes += any ? 1 : 0;
  }
  return nodes == 0
             ? ""
             : fmt::format(
                   "{} {} {}, but {} Tessera's inventory; install the agent, or run \"tessera savings\"",
                   nodes, nodes == 1 ? "node offers" : "nodes offer",
                   listed({resources.begin(), resources.end()}), nodes == 1 ? "lacks" : "none has");
}

}  // namespace tessera::cli
