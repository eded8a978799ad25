// alloc/record.h
//
// The allocation of a pod: which container gets which GPUs. It is stored in the pod annotation
// tessera.io/allocation, written by the same request that binds the pod:
//
//   {"v":1,"containers":{"main":[{"gpu":"GPU-5d3c...","mem":3}],
//                        "trainer":[{"gpu":"GPU-71aa...","whole":true}]}}
//
// Anyone who can edit pods can write a record. Do not use one before held_shares() has compared it
// with what the pod's containers request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/request.h"
#include "base/result.h"

namespace tessera::alloc {

// One GPU with units of its memory and a percentage of its compute, or the whole GPU.
struct GpuShare {
  std::string gpu;                 // UUID; "index-3" in a record that an original system wrote
  std::uint32_t units = 0;         // of memory; 0 for a whole GPU
  std::uint32_t core_percent = 0;  // of compute
  bool whole = false;

  friend bool operator==(const GpuShare&, const GpuShare&) = default;
};

struct ContainerShares {
  std::string container;
  std::vector<GpuShare> shares;

  friend bool operator==(const ContainerShares&, const ContainerShares&) = default;
};

struct Record {
  static constexpr std::size_t kMaxBytes = 64U << 10U;

  std::vector<ContainerShares> containers;

  // Parses the annotation. The error names the invalid field.
  static Result<Record> parse(std::string_view json);
  [[nodiscard]] std::string json() const;

  // Returns the shares of a container, or null if it is not in the record.
  [[nodiscard]] const ContainerShares* find(std::string_view container) const;

  friend bool operator==(const Record&, const Record&) = default;
};

// Returns what a pod holds under `record`: for each GPU, the most that its containers use at one
// time. Fails if the record does not allocate exactly what every container requests; the error
// names the difference. Does not check that the GPUs exist, because only the ledger knows the node.
Result<std::vector<GpuShare>> held_shares(const GpuRequest& request, const Record& record);

// Convert between an index and the name of a GPU whose UUID is unknown: 3 and "index-3".
std::string index_name(std::uint32_t index);
std::optional<std::uint32_t> index_of_name(std::string_view gpu);

}  // namespace tessera::alloc
