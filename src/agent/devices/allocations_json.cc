#include "agent/devices/allocations_json.h"

#include <algorithm>
#include <boost/json.hpp>
#include <tuple>
#include <utility>

namespace tessera::agent {

namespace {

boost::json::object entry_json(const ListedKind& kind, const ListedAllocation& listed) {
  const Allocation& allocation = listed.allocation;
  boost::json::object ids;
  for (const auto& [resource, held] : allocation.ids) {
    ids[resource] = boost::json::array(held.begin(), held.end());
  }
  boost::json::object one{
      {"namespace", allocation.pod.namespace_name}, {"pod", allocation.pod.name}, {"uid", allocation.pod_uid},
      {"container", allocation.container},          {kind.key, listed.shares},    {"ids", std::move(ids)}};
  if (!allocation.start_block.empty()) {
    one["held"] = allocation.start_block;
  }
  return one;
}

}  // namespace

std::string allocations_json(boost::json::object about, const std::vector<ListedKind>& kinds) {
  std::vector<std::pair<const ListedKind*, const ListedAllocation*>> all;
  for (const ListedKind& kind : kinds) {
    for (const ListedAllocation& allocation : kind.allocations) {
      all.emplace_back(&kind, &allocation);
    }
  }
  std::ranges::stable_sort(all, {}, [](const auto& entry) {
    const Allocation& one = entry.second->allocation;
    return std::tie(one.pod.namespace_name, one.pod.name, one.pod_uid, one.container);
  });
  boost::json::array list;
  for (const auto& [kind, allocation] : all) {
    list.push_back(entry_json(*kind, *allocation));
  }
  about["allocations"] = std::move(list);
  return boost::json::serialize(about);
}

}  // namespace tessera::agent
