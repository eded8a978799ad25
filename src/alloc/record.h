// alloc/record.h
//
// A decision: which container of a pod gets which GPUs. It travels in the pod annotation
// tessera.io/allocation, written in the same transaction that binds the pod:
//
//   {"v":1,"containers":{"main":[{"gpu":"GPU-5d3c...","mem":3}],"trainer":[{"gpu":"GPU-71aa...","whole":true}]}}
//
// Records are text that anybody may have written. Nothing in one is believed before claims_of() has held it
// against what the pod's containers asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/request.h"
#include "base/result.h"

namespace tessera::alloc {

// A GPU, or a part of one, for a container.
struct Grant {
  std::string gpu;                 // its UUID; in what old tools wrote "index-3"
  std::uint32_t units = 0;         // of memory; 0 for a whole GPU
  std::uint32_t core_percent = 0;  // of compute
  bool whole = false;

  friend bool operator==(const Grant&, const Grant&) = default;
};

struct ContainerGrants {
  std::string container;
  std::vector<Grant> grants;

  friend bool operator==(const ContainerGrants&, const ContainerGrants&) = default;
};

struct Record {
  static constexpr std::size_t kMaxBytes = 64U << 10U;

  std::vector<ContainerGrants> containers;

  static Result<Record> parse(std::string_view json);
  [[nodiscard]] std::string json() const;

  [[nodiscard]] const ContainerGrants* find(std::string_view container) const;

  friend bool operator==(const Record&, const Record&) = default;
};

// What a pod holds of one GPU through its life.
struct Claim {
  std::string gpu;
  std::uint32_t units = 0;
  std::uint32_t core_percent = 0;
  bool whole = false;

  friend bool operator==(const Claim&, const Claim&) = default;
};

// What a pod holds under `record`: the most that its containers use of each GPU at one time. Fails, and says
// what does not agree, unless the record gives every container exactly what it asked for. Whether the GPUs
// exist is for the node's books to say.
Result<std::vector<Claim>> claims_of(const Demand& demand, const Record& record);

// How the GPU at an index is called where its UUID is not known, and the way back.
std::string index_name(std::uint32_t index);
std::optional<std::uint32_t> index_of_name(std::string_view gpu);

}  // namespace tessera::alloc
