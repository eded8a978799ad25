#include "agent/gpu/record_repair.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <set>

#include "alloc/names.h"
#include "alloc/original_record.h"
#include "alloc/request.h"

namespace tessera::agent {

namespace {

// The annotations that follow from the record, as far as the agent reads them from a pod
// (alloc::key::is_pod_annotation).
constexpr std::array kDerived = {alloc::key::kMemIdx, alloc::key::kMemPod, alloc::key::kMemAllocation,
                                 alloc::key::kWholeGroup, alloc::key::kWholeIdx};

// Returns the record in tessera.io/allocation, if it is valid.
std::optional<alloc::Record> own_record(const alloc::PodSpec& pod, const alloc::GpuRequest& request) {
  const std::string* text = alloc::find_text(pod.annotations, alloc::key::kAllocation);
  if (text == nullptr) {
    return std::nullopt;
  }
  Result<alloc::Record> record = alloc::Record::parse(*text);
  return record && alloc::held_shares(request, *record) ? std::optional(*std::move(record)) : std::nullopt;
}

// Checks that the GPUs of the record satisfy the pod's annotations. A pod that got the GPUs of
// another one must not violate them.
Status check_constraints(const alloc::Request& request, const alloc::Record& record,
                         const alloc::Inventory& inventory) {
  std::set<std::string> shared;
  for (const alloc::ContainerShares& container : record.containers) {
    for (const alloc::GpuShare& share : container.shares) {
      const auto found = inventory.find_uuid(share.gpu);
      if (!found) {
        return fail(ErrorCode::kNotFound, fmt::format("GPU {} is not on this node", share.gpu));
      }
      const std::string& model = inventory.gpus[*found].model;
      const auto is_model = [&](const std::string& wanted) { return alloc::model_matches(model, wanted); };
      const auto names_it = [&](const std::vector<std::string>& list) {
        return std::ranges::find(list, share.gpu) != list.end();
      };
      if ((!request.models.empty() && std::ranges::none_of(request.models, is_model)) ||
          (!request.uuids.empty() && !names_it(request.uuids)) || names_it(request.uuids_excluded)) {
        return fail(ErrorCode::kInvalid, fmt::format("the pod's annotations do not allow GPU {}", share.gpu));
      }
      if (!share.whole) {
        shared.insert(share.gpu);
      }
    }
  }
  if (request.placement == alloc::Placement::kOneGpu && shared.size() > request.split) {
    return fail(ErrorCode::kInvalid, "its containers would be on different GPUs");
  }
  return {};
}

}  // namespace

std::string RecordRepair::patch(const std::string& pod_uid) const {
  boost::json::object changes;
  for (const auto& [name, value] : annotations) {
    changes[name] = value ? boost::json::value(*value) : boost::json::value(nullptr);
  }
  return boost::json::serialize(boost::json::object{
      {"metadata", boost::json::object{{"uid", pod_uid}, {"annotations", std::move(changes)}}}});
}

std::vector<alloc::GpuShare> record_shares(const std::vector<DeviceShare>& shares) {
  std::vector<alloc::GpuShare> converted;
  for (const DeviceShare& share : shares) {
    converted.push_back({.gpu = share.device,
                         .units = share.units,
                         .core_percent = share.core_percent,
                         .whole = share.whole});
  }
  return converted;
}

std::vector<DeviceShare> shares_of(const alloc::Record& record, const std::string& container) {
  std::vector<DeviceShare> shares;
  const alloc::ContainerShares* found = record.find(container);
  for (const alloc::GpuShare& share : found == nullptr ? std::vector<alloc::GpuShare>() : found->shares) {
    shares.push_back({.device = share.gpu,
                      .units = share.units,
                      .core_percent = share.core_percent,
                      .whole = share.whole});
  }
  return shares;
}

Result<alloc::Record> record_as_allocated(const alloc::PodSpec& pod, const alloc::Record& decided,
                                          const Allocations& allocations, const alloc::Inventory& inventory,
                                          const alloc::ResourceNames& names, bool can_update) {
  alloc::Record record = decided;
  for (alloc::ContainerShares& container : record.containers) {
    const Allocation* given = allocations.find(pod.uid, container.container);
    if (given == nullptr || (can_update && !given->cdi_names.empty()) ||
        record_shares(given->shares) == container.shares) {
      continue;
    }
    if (given->shares.empty()) {
      return fail(ErrorCode::kUnavailable,
                  fmt::format("container {} was admitted without a GPU", container.container));
    }
    container.shares = record_shares(given->shares);
  }
  if (record != decided) {
    const alloc::Request request = TRY(alloc::Request::of_pod(pod, names));
    TRY(alloc::held_shares(request.gpus, record));
    TRY(check_constraints(request, record, inventory));
  }
  return record;
}

alloc::Record given_record(const alloc::PodSpec& pod, const alloc::GpuRequest& request,
                           const alloc::Record& decided, const Allocations& allocations) {
  alloc::Record record = decided;
  if (record.containers.empty()) {
    for (const alloc::ContainerRequest& container : request.containers) {
      record.containers.push_back({.container = container.name, .shares = {}});
    }
  }
  for (alloc::ContainerShares& container : record.containers) {
    const Allocation* given = allocations.find(pod.uid, container.container);
    if (given != nullptr && !given->shares.empty()) {
      container.shares = record_shares(given->shares);
    }
  }
  std::erase_if(record.containers,
                [](const alloc::ContainerShares& container) { return container.shares.empty(); });
  return record;
}

Result<RecordRepair> repair_of(const alloc::PodSpec& pod, const alloc::GpuRequest& request,
                               const alloc::Inventory& inventory, const RepairFacts& facts) {
  const alloc::Annotations expected = TRY(alloc::binding_annotations(
      request, facts.truth, inventory.gpu_names(), {.assume_time_ns = facts.now_ns, .has_agent = true}));
  const std::optional<alloc::Record> own = own_record(pod, request);
  const alloc::Annotations& said = pod.annotations;
  RecordRepair repair;
  repair.changes_gpus = own && *own != facts.truth;
  bool is_incomplete = !own;
  // Without an own record, the annotations are from an original scheduler and stay unchanged.
  if (own || facts.started) {
    for (const std::string_view name : kDerived) {
      const std::string* before = alloc::find_text(said, name);
      const auto right = expected.find(name);
      if (before == nullptr) {
        is_incomplete = is_incomplete || (facts.started && right != expected.end());
      } else if (right == expected.end() || *before != right->second) {
        repair.annotations[std::string(name)] =
            right == expected.end() ? std::nullopt : std::optional(right->second);
      }
    }
  }
  if (own != facts.truth) {
    repair.annotations[std::string(alloc::key::kAllocation)] = facts.truth.json();
  }
  if (is_incomplete) {
    for (const auto& [name, value] : expected) {
      if (alloc::find_text(said, name) == nullptr) {
        repair.annotations[name] = value;
      }
    }
  }
  return repair;
}

}  // namespace tessera::agent
