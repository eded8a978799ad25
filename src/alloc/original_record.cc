#include "alloc/original_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "alloc/names.h"
#include "base/json_reader.h"
#include "base/strings.h"

namespace tessera::alloc {

namespace {

constexpr std::int64_t kMostIndex = 4095;

Error wrong(std::string_view name, std::string_view text, std::string_view why) {
  return {ErrorCode::kInvalid, fmt::format("annotation {} is {}, {}", name, in_quotes(text), why)};
}

ContainerShares& shares_for(Record& record, const std::string& container) {
  const auto found = std::ranges::find(record.containers, container, &ContainerShares::container);
  if (found != record.containers.end()) {
    return *found;
  }
  return record.containers.emplace_back(ContainerShares{.container = container, .shares = {}});
}

// First generation: all shares of the pod are on one GPU.
Status read_v1(const Annotations& annotations, const GpuRequest& request, Record& record) {
  const std::string* idx = find_text(annotations, key::kMemIdx);
  const std::string* pod_units = find_text(annotations, key::kMemPod);
  if (idx == nullptr) {
    return fail(ErrorCode::kNotFound, "no annotation of an original scheduler");
  }
  const auto index = parse_int(*idx);
  if (!index || *index < 0 || *index > kMostIndex) {
    return fail(wrong(key::kMemIdx, *idx, "not a GPU index"));
  }
  // The original extender counted main containers only. Accept its number and the correct one.
  std::uint64_t mains = 0;
  for (const ContainerRequest& container : request.containers) {
    mains += container.kind == ContainerKind::kMain ? container.units : 0;
  }
  const std::string_view claimed = pod_units == nullptr ? std::string_view() : std::string_view(*pod_units);
  const auto units = parse_int(claimed);
  if (!units ||
      (static_cast<std::uint64_t>(*units) != mains && static_cast<std::uint64_t>(*units) != request.units)) {
    return fail(wrong(key::kMemPod, claimed, fmt::format("but the containers request {}", request.units)));
  }
  for (const ContainerRequest& container : request.containers) {
    if (container.units > 0) {
      shares_for(record, container.name)
          .shares.push_back({.gpu = index_name(static_cast<std::uint32_t>(*index)),
                             .units = container.units,
                             .core_percent = container.core_percent});
    }
  }
  return {};
}

using UnitsByIndex = std::map<std::uint32_t, std::uint32_t>;

Result<UnitsByIndex> read_v2_container(const JsonReader& json) {
  UnitsByIndex by_index;
  for (const auto& [name, units] : TRY(json.as_object(64))) {
    const auto index = parse_int(name);
    if (!index || *index < 0 || *index > kMostIndex) {
      return fail(json.wrong(fmt::format("has {} where a GPU index should be", in_quotes(name))));
    }
    by_index[static_cast<std::uint32_t>(*index)] =
        static_cast<std::uint32_t>(TRY(units.as_integer(1, GpuRequest::kMostUnits)));
  }
  return by_index;
}

// Second generation: {"<container>":{"<gpu>":units}}. It lists neither init containers nor compute
// shares. If it names only one GPU, an unlisted container must be on that GPU.
Status read_v2(const Annotations& annotations, const GpuRequest& request, Record& record) {
  const std::string* text = find_text(annotations, key::kMemAllocation);
  if (text == nullptr) {
    return fail(ErrorCode::kNotFound, "no annotation of an original scheduler");
  }
  const auto document = TRY(
      with_context(parse_json(*text, Record::kMaxBytes), fmt::format("annotation {}", key::kMemAllocation)));
  const JsonReader root(document, fmt::format("annotation {}", key::kMemAllocation));
  std::map<std::string, UnitsByIndex> given;
  UnitsByIndex all;
  for (const auto& [name, by_gpu] : TRY(root.as_object(256))) {
    given[name] = TRY(read_v2_container(by_gpu));
    all.insert(given[name].begin(), given[name].end());
  }
  if (all.empty()) {
    return fail(root.wrong("names no GPU"));
  }
  for (std::size_t i = 0; i < request.containers.size(); ++i) {
    const ContainerRequest& container = request.containers[i];
    if (container.units == 0) {
      continue;
    }
    const std::int32_t position = request.original_positions[i];
    const auto mine = given.find(std::to_string(position));
    const bool listed = position >= 0 && mine != given.end();
    if ((!listed && position >= 0) || (all.size() > 1 && (position < 0 || container.core_percent > 0))) {
      return fail(root.wrong(fmt::format("does not say where container {} is", in_quotes(container.name))));
    }
    const UnitsByIndex only{{all.begin()->first, container.units}};
    for (const auto& [index, units] : listed ? mine->second : only) {
      shares_for(record, container.name)
          .shares.push_back(
              {.gpu = index_name(index), .units = units, .core_percent = container.core_percent});
    }
    if (listed) {
      given.erase(mine);
    }
  }
  if (!given.empty()) {
    return fail(
        root.wrong(fmt::format("names container {}, which shares no GPU", in_quotes(given.begin()->first))));
  }
  return {};
}

Status read_shares(const Annotations& annotations, const GpuRequest& request, Record& record) {
  const Record before = record;
  Status v2 = read_v2(annotations, request, record);
  if (v2) {
    return v2;
  }
  record = before;
  Status v1 = read_v1(annotations, request, record);
  const bool v1_absent = !v1 && v1.error().code() == ErrorCode::kNotFound;
  return v1_absent ? v2 : v1;
}

// Whole GPUs: a list of indices, assigned to the containers in order.
Status read_whole(const Annotations& annotations, const GpuRequest& request, Record& record) {
  const bool grouped = find_text(annotations, key::kWholeGroup) != nullptr;
  const std::string_view name = grouped ? key::kWholeGroup : key::kWholeIdx;
  const std::string* text = find_text(annotations, name);
  if (text == nullptr) {
    return fail(ErrorCode::kNotFound, "no annotation of an original scheduler");
  }
  std::vector<std::uint32_t> indices;
  for (const std::string_view part : split(*text, ',')) {
    const auto index = parse_int(trim(part));
    if (!index || *index < 0 || *index > kMostIndex) {
      return fail(wrong(name, *text, "not a list of GPU indices"));
    }
    indices.push_back(static_cast<std::uint32_t>(*index));
  }
  std::ranges::sort(indices);
  if (indices.size() != request.whole || std::ranges::adjacent_find(indices) != indices.end()) {
    return fail(
        wrong(name, *text, fmt::format("not {} different GPUs as the containers request", request.whole)));
  }
  const auto split = request.split_whole();
  for (std::size_t i = 0; i < split.size(); ++i) {
    for (const std::uint32_t which : split[i]) {
      shares_for(record, request.containers[i].name)
          .shares.push_back({.gpu = index_name(indices[which]), .whole = true});
    }
  }
  return {};
}

}  // namespace

Result<Record> original_record(const Annotations& annotations, const GpuRequest& request) {
  Record record;
  if (request.units > 0) {
    TRY(read_shares(annotations, request, record));
  }
  if (request.whole > 0) {
    TRY(read_whole(annotations, request, record));
  }
  return record;
}

}  // namespace tessera::alloc
