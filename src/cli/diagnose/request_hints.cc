#include "cli/diagnose/request_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "alloc/request_advice.h"
#include "base/nearest_name.h"
#include "base/strings.h"

namespace tessera::cli {

namespace {

constexpr std::string_view kOwnPrefix = "tessera.io/";
// The annotations of pods that users write.
constexpr std::array kUserAnnotations = {alloc::key::kPolicy, alloc::key::kPlacement, alloc::key::kGpuModel,
                                         alloc::key::kGpuUuids, alloc::key::kGpuUuidsExclude};
constexpr std::size_t kMostHints = 8;

std::string_view after_slash(std::string_view name) {
  return name.substr(name.find('/') + 1);
}

std::array<std::string_view, 4> resources_of(const alloc::ResourceNames& names) {
  return {names.memory(), names.whole(), names.count(), names.core_percent()};
}

bool is_offered(const Cluster& cluster, const std::string& resource) {
  return std::ranges::any_of(cluster.nodes, [&](const objects::NodeFacts& node) {
    return std::ranges::find(node.other_gpu_resources, resource) != node.other_gpu_resources.end();
  });
}

// Returns the resource of Tessera that the user probably meant. Compares only the part after the
// slash, because users of other systems also write another prefix.
std::optional<std::string_view> meant_resource(std::string_view wrong, const alloc::ResourceNames& names) {
  const auto resources = resources_of(names);
  std::array<std::string_view, 4> ends{};
  std::ranges::transform(resources, ends.begin(), after_slash);
  const auto nearest = nearest_name(after_slash(wrong), ends);
  if (!nearest) {
    return std::nullopt;
  }
  return resources[static_cast<std::size_t>(std::ranges::find(ends, *nearest) - ends.begin())];
}

// A limit of a pod that neither Tessera nor another plugin serves.
struct Unserved {
  std::string resource;
  std::string text;        // `"nvidia.com/gpu" is offered by no node`
  std::string_view meant;  // the resource of Tessera that the user probably meant; may be empty
};

std::vector<Unserved> find_unserved(const Cluster& cluster, const objects::PodDetails& details) {
  const std::string_view memory = cluster.names.memory();
  const std::string_view prefix = memory.substr(0, memory.find('/') + 1);
  std::vector<Unserved> all;
  for (const std::string& limit : details.other_gpu_limits) {
    // Without nodes it is not known what other plugins serve.
    if (is_offered(cluster, limit) || (cluster.restriction.nodes && !limit.starts_with(prefix))) {
      continue;
    }
    all.push_back({.resource = limit,
                   .text = in_quotes(limit) + (cluster.restriction.nodes ? " is not a resource of Tessera"
                                                                         : " is offered by no node"),
                   .meant = meant_resource(limit, cluster.names).value_or("")});
  }
  return all;
}

void add_annotation_hints(const objects::PodDetails& details, std::vector<std::string>& hints) {
  std::array<std::string_view, kUserAnnotations.size()> known{};
  std::ranges::transform(kUserAnnotations, known.begin(), after_slash);
  for (const auto& [key, value] : details.annotations) {
    if (key.starts_with(kOwnPrefix) && hints.size() < kMostHints) {
      const auto nearest = nearest_name(after_slash(key), known);
      hints.push_back(fmt::format("The annotation {} is unknown and has no effect{} The annotations are {}",
                                  in_quotes(key),
                                  nearest ? fmt::format(": did you mean {}{}?", kOwnPrefix, *nearest) : ".",
                                  fmt::join(kUserAnnotations, ", ")));
    }
  }
}

bool has_gpu(const alloc::Ledger& ledger, const std::string& uuid) {
  return std::ranges::any_of(ledger.nodes(), [&](alloc::NodeId node) {
    return std::ranges::any_of(ledger.gpus(node),
                               [&](const alloc::LedgerGpu& gpu) { return gpu.uuid.text() == uuid; });
  });
}

// Hints about models and UUIDs need the nodes of the cluster.
void add_constraint_hints(const alloc::Ledger& ledger, const alloc::Request& request,
                          std::vector<std::string>& hints) {
  if (std::string advice = alloc::unknown_model_advice(ledger, request); !advice.empty()) {
    hints.push_back(fmt::format("{}: {}", alloc::key::kGpuModel, advice));
  }
  const auto unknown =
      std::ranges::find_if(request.uuids, [&](const std::string& uuid) { return !has_gpu(ledger, uuid); });
  if (unknown != request.uuids.end()) {
    hints.push_back(fmt::format("{}: no node has GPU {}; \"tessera inspect -d\" lists the UUIDs",
                                alloc::key::kGpuUuids, in_quotes(*unknown)));
  }
}

}  // namespace

std::vector<std::string> unserved_resources(const Cluster& cluster, const objects::PodDetails& details) {
  std::vector<std::string> texts;
  for (const Unserved& one : find_unserved(cluster, details)) {
    texts.push_back(one.text + (one.meant.empty() ? "" : fmt::format(": did you mean {}?", one.meant)));
  }
  return texts;
}

bool waits_for_unserved(const Cluster& cluster, const alloc::PodSpec& pod,
                        const objects::PodDetails& details) {
  return !alloc::asks_for_gpus(pod) && pod.node_name.empty() && alloc::occupies(pod) &&
         !find_unserved(cluster, details).empty();
}

std::vector<std::string> resource_hints(const Cluster& cluster, const objects::PodDetails& details) {
  const alloc::ResourceNames& names = cluster.names;
  std::vector<std::string> hints;
  for (const Unserved& one : find_unserved(cluster, details)) {
    std::string hint =
        fmt::format("{}{} Tessera serves {}", one.text,
                    one.meant.empty() ? std::string(".") : fmt::format(": did you mean {}?", one.meant),
                    fmt::join(resources_of(names), ", "));
    if (one.meant == names.whole() && one.resource == "nvidia.com/gpu") {
      hint += "; the chart value resourceNames.whole=nvidia.com/gpu makes it serve that name instead";
    }
    hints.push_back(std::move(hint));
  }
  return hints;
}

std::vector<std::string> request_hints(const Cluster& cluster, const alloc::PodSpec& pod,
                                       const objects::PodDetails& details, const alloc::Ledger& ledger) {
  const alloc::ResourceNames& names = cluster.names;
  std::vector<std::string> hints = resource_hints(cluster, details);
  if (!alloc::asks_for_gpus(pod)) {
    return hints;
  }
  if (std::string advice = alloc::mixed_request_advice(pod, names, ledger.options().unit); !advice.empty()) {
    hints.push_back("Note: " + advice);
  }
  add_annotation_hints(details, hints);
  if (const auto request = alloc::Request::of_pod(pod, names); request && !cluster.restriction.nodes) {
    add_constraint_hints(ledger, *request, hints);
  }
  return hints;
}

}  // namespace tessera::cli
