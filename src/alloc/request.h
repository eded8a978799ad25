// alloc/request.h
//
// What a pod wants of GPUs: everything under "What a user writes" of the contract, read and checked in one
// place.
//
//   const Request request = TRY(Request::of_pod(pod, names));
//   request.shape       // what must be free together on one node, as Kubernetes counts containers
//   request.containers  // who gets which part of it
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/names.h"
#include "alloc/pod.h"
#include "base/result.h"

namespace tessera::alloc {

enum class Policy : std::uint8_t { kBinpack, kSpread, kFgd, kSimple, kStatic, kBestEffort, kRing };

// "binpack", "spread", "fgd"; "simple", "static", "best_effort", "ring".
std::string_view to_string(Policy policy);
Result<Policy> parse_policy(std::string_view text);
// The first three place shares of GPUs, the others whole ones.
constexpr bool is_share_policy(Policy policy) {
  return policy <= Policy::kFgd;
}

enum class Placement : std::uint8_t {
  kOneGpu,        // all containers of the pod on the same GPU, or over the same gpu-count GPUs
  kPerContainer,  // each container on a GPU of its own choice
};

// What one container asks for. Amounts are totals: over `split` GPUs each has an equal part.
struct ContainerRequest {
  std::string name;
  ContainerKind kind = ContainerKind::kMain;
  std::uint32_t units = 0;         // of GPU memory
  std::uint32_t core_percent = 0;  // of compute, beside memory
  std::uint32_t whole = 0;         // GPUs

  friend bool operator==(const ContainerRequest&, const ContainerRequest&) = default;
};

// CPU and memory that the pod requests of its node, as Kubernetes counts them.
struct NodeUse {
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;

  static NodeUse of_pod(const PodSpec& pod);

  friend bool operator==(const NodeUse&, const NodeUse&) = default;
};

// What the containers' limits say and nothing a user could change later. This is what a decision is checked
// against.
struct GpuRequest {
  static constexpr std::uint32_t kMostUnits = 1U << 24U;  // in one container: 16 TiB in MiB
  static constexpr std::size_t kMostContainers = 64;      // that ask for GPUs

  // All containers of the pod that ask for GPUs, in the order of the pod.
  std::vector<ContainerRequest> containers;
  // For each of them its place among the pod's main containers, or behind all of those for its place among
  // the sidecars: what the second-generation annotation calls it. Init containers have none (-1).
  std::vector<std::int32_t> original_positions;

  // As Kubernetes counts them together.
  std::uint64_t units = 0;
  std::uint64_t core_percent = 0;
  std::uint64_t whole = 0;

  // Fails on amounts that are negative, fractional or beyond all GPUs, and names container and resource.
  static Result<GpuRequest> of_pod(const PodSpec& pod, const ResourceNames& names);

  [[nodiscard]] bool any() const { return !containers.empty(); }

  // Which of the pod's `whole` GPUs (0, 1, ...) each container has, in the order of `containers`. Those that
  // run together have different ones; an init container uses some that others get after it.
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> split_whole() const;

  friend bool operator==(const GpuRequest&, const GpuRequest&) = default;
};

// A share that needs `gpus` different GPUs with `units` and `core_percent` free on each.
struct SharePart {
  std::uint32_t units = 0;
  std::uint16_t core_percent = 0;
  std::uint16_t gpus = 0;

  friend bool operator==(const SharePart&, const SharePart&) = default;
};

// What must be free on one node, for scoring: equal shapes are placed equally, so results can be kept by it.
// A pod placed per container with several sharing containers has only the largest one as `share`.
struct Shape {
  SharePart share;          // gpus == 0: no share
  std::uint16_t whole = 0;  // GPUs
  NodeUse node;

  friend bool operator==(const Shape&, const Shape&) = default;
};

struct Request {
  GpuRequest gpus;
  Shape shape;
  Placement placement = Placement::kOneGpu;
  std::uint16_t split = 1;  // GPUs that each container's memory is spread over

  // Unset: the cluster's default.
  std::optional<Policy> share_policy;
  std::optional<Policy> whole_policy;

  // Empty: any. A model matches when its words stand in the GPU's model: "A100" is in "NVIDIA A100-SXM4-80GB"
  // and "A10" is not.
  std::vector<std::string> models;
  std::vector<std::string> uuids;
  std::vector<std::string> uuids_excluded;

  // Fails when the pod's wishes make no sense; the error names the field and what it should be.
  static Result<Request> of_pod(const PodSpec& pod, const ResourceNames& names);

  // A request that no pod object stands behind: `share.gpus` shares, `whole` GPUs, in one container.
  static Request of_shape(const Shape& shape);

  // Sharing containers that are placed one by one; else the pod's share is one part.
  [[nodiscard]] bool has_several_parts() const;
  // Wants GPUs of certain models or certain ones.
  [[nodiscard]] bool is_choosy() const {
    return !models.empty() || !uuids.empty() || !uuids_excluded.empty();
  }

  friend bool operator==(const Request&, const Request&) = default;
};

// Whether the words of `wanted` stand in `model` one after the other, in any case; space, '-' and '_' divide
// words.
bool model_matches(std::string_view model, std::string_view wanted);

}  // namespace tessera::alloc
