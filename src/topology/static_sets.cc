#include "topology/static_sets.h"

#include <fmt/core.h>

#include "base/strings.h"

namespace tessera::topology {

namespace {

constexpr std::size_t kMaxMachines = 1'000;
constexpr std::size_t kMaxSets = 10'000;

Result<GpuMask> read_set(const JsonReader& reader, unsigned count) {
  GpuMask set = 0;
  for (const JsonReader& entry : TRY(reader.as_array(kMaxGpus))) {
    const auto gpu = static_cast<unsigned>(TRY(entry.as_integer(0, kMaxGpus - 1)));
    if ((set & gpu_bit(gpu)) != 0) {
      return fail(entry.wrong(fmt::format("repeats GPU {}", gpu)));
    }
    set |= gpu_bit(gpu);
  }
  if (gpu_count(set) != count) {
    return fail(reader.wrong(fmt::format("has {} GPUs but is listed under {}", gpu_count(set), count)));
  }
  return set;
}

}  // namespace

Result<StaticSets> StaticSets::from_json(const JsonReader& reader) {
  StaticSets table;
  for (const auto& [type, counts] : TRY(reader.as_object(kMaxMachines))) {
    SetsByCount& sets_by_count = table.machines_[type];
    for (const auto& [key, sets] : TRY(counts.as_object(kMaxGpus))) {
      const auto count = parse_int(key);
      if (!count || *count < 1 || *count > kMaxGpus) {
        return fail(sets.wrong(fmt::format("has the key {}, which is not a number of GPUs (1 to {})",
                                           in_quotes(key), kMaxGpus)));
      }
      std::vector<GpuMask>& list = sets_by_count[static_cast<unsigned>(*count)];
      for (const JsonReader& set : TRY(sets.as_array(kMaxSets))) {
        list.push_back(TRY(read_set(set, static_cast<unsigned>(*count))));
      }
    }
  }
  return table;
}

const StaticSets::SetsByCount* StaticSets::find(std::string_view machine_type) const {
  auto entry = machines_.find(machine_type);
  if (entry == machines_.end()) {
    entry = machines_.find(std::string_view("*"));
  }
  return entry == machines_.end() ? nullptr : &entry->second;
}

std::string_view StaticSets::listed(std::string_view type, std::string_view other) const {
  return !machines_.contains(type) && machines_.contains(other) ? other : type;
}

Result<SetChoice> StaticSets::choose(const SetTables& tables, std::string_view machine_type,
                                     const SetQuery& query) const {
  const SetsByCount* sets_by_count = find(machine_type);
  if (sets_by_count == nullptr) {
    return fail(ErrorCode::kNotFound,
                fmt::format("the static table has no entry for machine type {}", in_quotes(machine_type)));
  }
  if (can_choose(tables, query)) {
    const GpuMask free = query.free & tables.topology().all();
    for (auto entry = sets_by_count->lower_bound(query.count); entry != sets_by_count->end(); ++entry) {
      for (const GpuMask set : entry->second) {
        if ((set & ~free) != 0 || (query.required & ~set) != 0) {
          continue;
        }
        SetQuery inside = query;
        inside.free = set;
        const GpuMask gpus = entry->first == query.count ? set : choose_ring(tables, inside)->gpus;
        return describe_choice(tables, query, gpus);
      }
    }
  }
  return fail(ErrorCode::kExhausted, fmt::format("no set of {} GPUs listed for machine type {} is free",
                                                 query.count, in_quotes(machine_type)));
}

}  // namespace tessera::topology
