// Writes an allocation: annotations of the Binding, variables of the containers.
#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <optional>
#include <set>

#include "alloc/names.h"
#include "alloc/original_record.h"
#include "base/strings.h"

namespace tessera::alloc {

namespace {

void set(Annotations& annotations, std::string_view name, std::string value) {
  annotations.insert_or_assign(std::string(name), std::move(value));
}

std::string join(const std::set<std::uint32_t>& numbers) {
  std::string text;
  for (const std::uint32_t number : numbers) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", number);
  }
  return text;
}

// {"<container>":{"<gpu index>":units}} without init containers, which the original systems do not
// number.
std::string v2_text(const GpuRequest& request, const Record& record, std::span<const GpuName> gpus) {
  std::map<std::int32_t, boost::json::object> by_position;
  for (std::size_t i = 0; i < request.containers.size(); ++i) {
    const ContainerShares* given = record.find(request.containers[i].name);
    if (given == nullptr || request.original_positions[i] < 0) {
      continue;
    }
    std::map<std::uint32_t, std::uint32_t> by_index;
    for (const GpuShare& share : given->shares) {
      if (!share.whole) {
        by_index[find_gpu(gpus, share.gpu)->index] = share.units;
      }
    }
    for (const auto& [index, units] : by_index) {
      by_position[request.original_positions[i]][std::to_string(index)] = units;
    }
  }
  boost::json::object all;
  for (auto& [position, one] : by_position) {
    all[std::to_string(position)] = std::move(one);
  }
  return boost::json::serialize(all);
}

void add_shares(const GpuRequest& request, const Record& record, const std::vector<GpuShare>& held,
                std::span<const GpuName> gpus, const BindingFacts& facts, Annotations& annotations) {
  std::vector<const GpuShare*> shares;
  for (const GpuShare& share : held) {
    if (!share.whole) {
      shares.push_back(&share);
    }
  }
  const auto sharing = std::ranges::count_if(request.containers, [](const auto& c) { return c.units > 0; });
  if (shares.size() == 1) {
    const GpuName& gpu = *find_gpu(gpus, shares.front()->gpu);
    set(annotations, key::kMemIdx, std::to_string(gpu.index));
    set(annotations, key::kMemPod, std::to_string(shares.front()->units));
    set(annotations, key::kMemDev, std::to_string(gpu.units));
    set(annotations, key::kMemAssumeTime, std::to_string(facts.assume_time_ns));
    set(annotations, key::kMemAssigned, facts.has_agent ? "true" : "false");
  }
  if (shares.size() > 1 || sharing > 1) {
    set(annotations, key::kMemAllocation, v2_text(request, record, gpus));
  }
}

void add_whole(const std::vector<GpuShare>& shares, std::span<const GpuName> gpus, const BindingFacts& facts,
               Annotations& annotations) {
  std::set<std::uint32_t> indices;
  for (const GpuShare& share : shares) {
    if (share.whole) {
      indices.insert(find_gpu(gpus, share.gpu)->index);
    }
  }
  if (indices.empty()) {
    return;
  }
  set(annotations, key::kWholeGroup, join(indices));
  set(annotations, key::kWholeIdx, join(indices));
  set(annotations, key::kWholeCountPod, std::to_string(indices.size()));
  set(annotations, key::kWholeAssumeTime, std::to_string(facts.assume_time_ns));
  set(annotations, key::kWholeAssigned, facts.has_agent ? "true" : "false");
}

}  // namespace

Result<Annotations> binding_annotations(const GpuRequest& request, const Record& record,
                                        std::span<const GpuName> gpus, const BindingFacts& facts) {
  const std::vector<GpuShare> shares = TRY(held_shares(request, record));
  for (const GpuShare& share : shares) {
    if (find_gpu(gpus, share.gpu) == nullptr) {
      return fail(ErrorCode::kNotFound, fmt::format("the node has no GPU {}", in_quotes(share.gpu)));
    }
  }
  Annotations annotations;
  if (facts.has_agent) {
    set(annotations, key::kAllocation, record.json());
  }
  add_shares(request, record, shares, gpus, facts, annotations);
  add_whole(shares, gpus, facts, annotations);
  return annotations;
}

RecordKeys record_keys(const Annotations& annotations) {
  static_assert(key::kRecord.size() <= 8 * sizeof(RecordKeys));
  RecordKeys carried = 0;
  for (std::size_t i = 0; i < key::kRecord.size(); ++i) {
    if (find_text(annotations, key::kRecord[i]) != nullptr) {
      carried |= static_cast<RecordKeys>(1U << i);
    }
  }
  return carried;
}

void empty_stale_records(RecordKeys carried, Annotations& binding) {
  for (std::size_t i = 0; i < key::kRecord.size(); ++i) {
    if ((carried >> i & 1U) != 0) {
      binding.try_emplace(std::string(key::kRecord[i]));
    }
  }
}

Annotations container_env(const GpuRequest& request, const Record& record, std::span<const GpuName> gpus,
                          std::string_view container) {
  Annotations env;
  const ContainerShares* given = record.find(container);
  std::string devices;
  std::set<std::uint32_t> indices;
  std::uint64_t units = 0;
  std::uint64_t gpu_units = 0;
  bool complete = given != nullptr;
  for (const GpuShare& share : given == nullptr ? std::vector<GpuShare>() : given->shares) {
    const GpuName* gpu = find_gpu(gpus, share.gpu);
    if (gpu == nullptr) {
      complete = false;
      break;
    }
    devices += fmt::format("{}{}", devices.empty() ? "" : ",", gpu->uuid);
    if (!share.whole) {
      indices.insert(gpu->index);
      units += share.units;
      gpu_units += gpu->units;
    }
  }
  if (!complete || devices.empty()) {
    set(env, key::kVisibleDevices, "void");
    return env;
  }
  set(env, key::kVisibleDevices, devices);
  if (units > 0) {
    set(env, key::kMemIdx, join(indices));
    set(env, key::kMemPod, std::to_string(request.units));
    set(env, key::kMemContainer, std::to_string(units));
    // DEV is the sum over the container's GPUs, like CONTAINER, so that CONTAINER / DEV is still
    // the container's fraction of a GPU.
    set(env, key::kMemDev, std::to_string(gpu_units));
  }
  return env;
}

}  // namespace tessera::alloc
