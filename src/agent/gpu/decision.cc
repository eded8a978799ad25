#include "agent/gpu/decision.h"

#include <fmt/core.h>

#include <optional>

#include "alloc/original_record.h"
#include "alloc/names.h"
#include "base/strings.h"

namespace tessera::agent {

namespace {

// The first GPU of the record that is not here; nothing when all are.
std::optional<std::string> missing_gpu(const alloc::Record& record, const alloc::Inventory& inventory) {
  for (const alloc::ContainerShares& container : record.containers) {
    for (const alloc::GpuShare& grant : container.shares) {
      if (!inventory.find_uuid(grant.gpu)) {
        return grant.gpu;
      }
    }
  }
  return std::nullopt;
}

// "index-3" becomes a UUID. Fails when there is no such GPU.
Status name_by_uuid(alloc::Record& record, const alloc::Inventory& inventory) {
  for (alloc::ContainerShares& container : record.containers) {
    for (alloc::GpuShare& grant : container.shares) {
      const auto index = alloc::index_of_name(grant.gpu);
      const auto found = index ? inventory.find_index(*index) : std::nullopt;
      if (!found) {
        return fail(ErrorCode::kInvalid, fmt::format("names {}, and there is no such GPU here", grant.gpu));
      }
      grant.gpu = inventory.gpus[*found].uuid;
    }
  }
  return {};
}

Result<alloc::Record> read_own(const std::string& text, const alloc::GpuRequest& request) {
  alloc::Record record = TRY(alloc::Record::parse(text));
  TRY(alloc::held_shares(request, record));
  return record;
}

Result<alloc::Record> read_legacy(const alloc::PodSpec& pod, const alloc::GpuRequest& request,
                                  const alloc::Inventory& inventory) {
  alloc::Record record = TRY(alloc::original_record(pod.annotations, request));
  TRY(alloc::held_shares(request, record));
  TRY(with_context(name_by_uuid(record, inventory), "the annotation of an old scheduler"));
  return record;
}

// With one GPU there is nothing to decide.
alloc::Record all_on(const std::string& uuid, const alloc::GpuRequest& request) {
  alloc::Record record;
  for (const alloc::ContainerRequest& container : request.containers) {
    alloc::ContainerShares grants{.container = container.name, .shares = {}};
    if (container.whole > 0) {
      grants.shares.push_back({.gpu = uuid, .whole = true});
    } else {
      grants.shares.push_back(
          {.gpu = uuid, .units = container.units, .core_percent = container.core_percent});
    }
    record.containers.push_back(std::move(grants));
  }
  return record;
}

}  // namespace

GpuDecision decide(const alloc::PodSpec& pod, const alloc::GpuRequest& request,
                   const alloc::Inventory& inventory) {
  std::string broken;
  if (const std::string* text = alloc::find_text(pod.annotations, alloc::key::kAllocation)) {
    Result<alloc::Record> record = read_own(*text, request);
    if (record) {
      if (const auto missing = missing_gpu(*record, inventory)) {
        return {.verdict = Verdict::kLostGpu,
                .record = *std::move(record),
                .why = fmt::format("GPU {} was decided for it and is not on this node; delete the pod so "
                                   "that another GPU is chosen",
                                   in_quotes(*missing))};
      }
      return {.verdict = Verdict::kDecided, .record = *std::move(record)};
    }
    broken = fmt::format("annotation {}: {}", alloc::key::kAllocation, record.error().text());
  }
  Result<alloc::Record> legacy = read_legacy(pod, request, inventory);
  if (legacy) {
    return {.verdict = Verdict::kDecided, .record = *std::move(legacy)};
  }
  if (broken.empty() && legacy.error().code() != ErrorCode::kNotFound) {
    broken = legacy.error().text();
  }
  if (!broken.empty()) {
    return {.verdict = Verdict::kBroken,
            .why = broken +
                   "; such a record is not believed: delete the pod and create it without "
                   "annotations of schedulers"};
  }
  if (inventory.gpus.size() == 1) {
    return {.verdict = Verdict::kDecided, .record = all_on(inventory.gpus.front().uuid, request)};
  }
  return {.verdict = Verdict::kUndecided,
          .why =
              "asks for GPUs, but no scheduler that knows them has placed it; set spec.schedulerName to "
              "Tessera's scheduler (or install the policy of the chart that does) and create it again"};
}

}  // namespace tessera::agent
