#include "agent/allocations_json.h"

#include <algorithm>
#include <boost/json.hpp>
#include <tuple>

namespace tessera::agent {

namespace {

boost::json::object grant_json(const alloc::Inventory& inventory, const alloc::Grant& grant) {
  boost::json::object one{{"uuid", grant.gpu}};
  if (const auto found = inventory.find_uuid(grant.gpu)) {
    one["index"] = inventory.gpus[*found].index;
  }
  if (grant.whole) {
    one["whole"] = true;
  } else {
    one["mem"] = grant.units;
  }
  if (grant.core_percent > 0) {
    one["core_percent"] = grant.core_percent;
  }
  return one;
}

}  // namespace

std::string allocations_json(const std::string& node, const alloc::Inventory& inventory,
                             std::vector<Allocation> allocations) {
  std::ranges::sort(allocations, {}, [](const Allocation& one) {
    return std::tie(one.pod.pod_namespace, one.pod.name, one.pod_uid, one.container);
  });
  boost::json::array list;
  for (const Allocation& allocation : allocations) {
    boost::json::array gpus;
    for (const alloc::Grant& grant : allocation.grants) {
      gpus.push_back(grant_json(inventory, grant));
    }
    boost::json::object ids;
    for (const auto& [resource, held] : allocation.ids) {
      ids[resource] = boost::json::array(held.begin(), held.end());
    }
    boost::json::object one{{"namespace", allocation.pod.pod_namespace},
                            {"pod", allocation.pod.name},
                            {"uid", allocation.pod_uid},
                            {"container", allocation.container},
                            {"gpus", std::move(gpus)},
                            {"ids", std::move(ids)}};
    if (!allocation.held.empty()) {
      one["held"] = allocation.held;
    }
    list.push_back(std::move(one));
  }
  return boost::json::serialize(
      boost::json::object{{"node", node}, {"unit", inventory.unit.text()}, {"allocations", std::move(list)}});
}

}  // namespace tessera::agent
