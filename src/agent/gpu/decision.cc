#include "agent/gpu/decision.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "alloc/names.h"
#include "alloc/original_record.h"
#include "base/strings.h"

namespace tessera::agent {

namespace {

// Returns the first GPU of the record that is not on this node; nullopt if all are.
std::optional<std::string> missing_gpu(const alloc::Record& record, const alloc::Inventory& inventory) {
  for (const alloc::ContainerShares& container : record.containers) {
    for (const alloc::GpuShare& share : container.shares) {
      if (!inventory.find_uuid(share.gpu)) {
        return share.gpu;
      }
    }
  }
  return std::nullopt;
}

// Replaces names such as "index-3" by UUIDs. Fails if there is no such GPU.
Status name_by_uuid(alloc::Record& record, const alloc::Inventory& inventory) {
  for (alloc::ContainerShares& container : record.containers) {
    for (alloc::GpuShare& share : container.shares) {
      const auto index = alloc::index_of_name(share.gpu);
      const auto found = index ? inventory.find_index(*index) : std::nullopt;
      if (!found) {
        return fail(ErrorCode::kInvalid, fmt::format("names {}, but this node has no such GPU", share.gpu));
      }
      share.gpu = inventory.gpus[*found].uuid;
    }
  }
  return {};
}

Result<alloc::Record> read_own(const std::string& text, const alloc::GpuRequest& request) {
  alloc::Record record = TRY(alloc::Record::parse(text));
  TRY(alloc::held_shares(request, record));
  return record;
}

Result<alloc::Record> read_original(const alloc::PodSpec& pod, const alloc::GpuRequest& request,
                                    const alloc::Inventory& inventory) {
  alloc::Record record = TRY(alloc::original_record(pod.annotations, request));
  TRY(alloc::held_shares(request, record));
  TRY(with_context(name_by_uuid(record, inventory), "annotation of the original scheduler"));
  return record;
}

// Returns a record that allocates the whole request on one GPU, the only one of the node.
alloc::Record all_on(const std::string& uuid, const alloc::GpuRequest& request) {
  alloc::Record record;
  for (const alloc::ContainerRequest& container : request.containers) {
    alloc::ContainerShares own{.container = container.name, .shares = {}};
    if (container.whole > 0) {
      own.shares.push_back({.gpu = uuid, .whole = true});
    } else {
      own.shares.push_back({.gpu = uuid, .units = container.units, .core_percent = container.core_percent});
    }
    record.containers.push_back(std::move(own));
  }
  return record;
}

struct Load {
  std::uint64_t units = 0;
  bool whole = false;
  std::string pod;  // one of those that hold it
};

std::map<std::string, Load> loads_by_gpu(const std::vector<Holding>& neighbours) {
  std::map<std::string, Load> loads;
  for (const Holding& neighbour : neighbours) {
    const auto add = [&](const alloc::GpuShare& share) {
      Load& load = loads[share.gpu];
      load.units += share.units;
      load.whole = load.whole || share.whole;
      load.pod = neighbour.pod;
    };
    if (const auto shares = alloc::held_shares(neighbour.request, neighbour.record)) {
      std::ranges::for_each(*shares, add);
      continue;
    }
    for (const alloc::ContainerShares& container : neighbour.record.containers) {
      std::ranges::for_each(container.shares, add);
    }
  }
  return loads;
}

}  // namespace

GpuDecision decide_by(alloc::Record record, const alloc::Inventory& inventory) {
  const auto missing = missing_gpu(record, inventory);
  if (!missing) {
    return {.verdict = Verdict::kDecided, .record = std::move(record)};
  }
  return {.verdict = Verdict::kLostGpu,
          .record = std::move(record),
          .message = fmt::format("its record names GPU {}, which is not on this node; delete the pod so "
                                 "that another GPU is chosen",
                                 in_quotes(*missing))};
}

GpuDecision decide(const alloc::PodSpec& pod, const alloc::GpuRequest& request,
                   const alloc::Inventory& inventory) {
  std::string invalid;
  if (const std::string* text = alloc::find_text(pod.annotations, alloc::key::kAllocation)) {
    Result<alloc::Record> record = read_own(*text, request);
    if (record) {
      return decide_by(*std::move(record), inventory);
    }
    invalid = fmt::format("annotation {}: {}", alloc::key::kAllocation, record.error().text());
  }
  Result<alloc::Record> original = read_original(pod, request, inventory);
  if (original) {
    return {.verdict = Verdict::kDecided, .record = *std::move(original)};
  }
  if (invalid.empty() && original.error().code() != ErrorCode::kNotFound) {
    invalid = original.error().text();
  }
  if (!invalid.empty()) {
    return {
        .verdict = Verdict::kInvalid,
        .message = invalid + "; delete the pod and create it without the annotations that schedulers write"};
  }
  if (inventory.gpus.size() == 1) {
    return {.verdict = Verdict::kDecided, .record = all_on(inventory.gpus.front().uuid, request)};
  }
  return {.verdict = Verdict::kUndecided,
          .message =
              "requests GPUs, but none was chosen for it: its scheduler does not call Tessera, or it sets "
              "spec.nodeName, which bypasses the scheduler; create it again with the schedulerName of "
              "Tessera's scheduler (the chart's policy sets it) and without nodeName"};
}

std::string overcommitment(const Holding& pod, const std::vector<Holding>& neighbours,
                           const alloc::Inventory& inventory) {
  const auto own = alloc::held_shares(pod.request, pod.record);
  if (!own) {
    return own.error().text();
  }
  const std::map<std::string, Load> before = loads_by_gpu(neighbours);
  for (const alloc::GpuShare& share : *own) {
    const auto found = inventory.find_uuid(share.gpu);
    const auto load = before.find(share.gpu);
    if (!found) {
      continue;
    }
    const alloc::Gpu& gpu = inventory.gpus[*found];
    const std::uint32_t units = inventory.units(*found);
    if (share.units > units) {
      return fmt::format(
          "GPU {} ({}) has {} units, but this pod's record allocates {}; delete the pod so that it is "
          "scheduled again",
          gpu.index, gpu.uuid, units, share.units);
    }
    if (load == before.end()) {
      continue;
    }
    const bool alone = share.whole || load->second.whole;
    if (alone || load->second.units + share.units > units) {
      return fmt::format(
          "GPU {} ({}) is taken: pod {} and others hold {} of its {} units, and this pod's record "
          "allocates {}; it starts when they end",
          gpu.index, gpu.uuid, load->second.pod,
          load->second.whole ? "all" : std::to_string(load->second.units), units,
          share.whole ? "all" : std::to_string(share.units));
    }
  }
  return {};
}

}  // namespace tessera::agent
