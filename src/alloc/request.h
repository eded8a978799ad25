// alloc/request.h
//
// The GPU request of a pod: its limits, labels and annotations, parsed and checked in one place.
//
//   const Request request = TRY(Request::of_pod(pod, names));
//   request.shape            // what must be free on one node, as Kubernetes counts containers
//   request.gpus.containers  // what each container requests
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

enum class Policy : std::uint8_t { kBinpack, kSpread, kFgd, kSimple, kStatic, kPrim, kBestEffort, kRing };

// "binpack", "spread", "fgd"; "simple", "static", "prim", "best_effort", "ring".
std::string_view to_string(Policy policy);
Result<Policy> parse_policy(std::string_view text);
// The first three are for shares of GPUs, the others for whole GPUs.
constexpr bool is_share_policy(Policy policy) {
  return policy <= Policy::kFgd;
}

enum class Placement : std::uint8_t {
  kOneGpu,        // all containers on the same GPU, or split over the same gpu-count GPUs
  kPerContainer,  // the GPU of each container is chosen separately
};

// The GPU request of one container. `units` and `core_percent` are totals, which are divided
// equally over Request::split GPUs.
struct ContainerRequest {
  std::string name;
  ContainerKind kind = ContainerKind::kMain;
  std::uint32_t units = 0;         // of GPU memory
  std::uint32_t core_percent = 0;  // of compute, in addition to memory
  std::uint32_t whole = 0;         // number of whole GPUs

  friend bool operator==(const ContainerRequest&, const ContainerRequest&) = default;
};

// The CPU and memory requests of a pod, as Kubernetes counts them.
struct NodeUse {
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;

  static NodeUse of_pod(const PodSpec& pod);

  friend bool operator==(const NodeUse&, const NodeUse&) = default;
};

// The GPU limits of a pod's containers, which cannot change after the pod was created. Records are
// checked against these limits.
struct GpuRequest {
  // The most units of one container: 16 TiB if a unit is 1 MiB.
  static constexpr std::uint32_t kMostUnits = 1U << 24U;
  // The most containers of a pod that may request GPUs.
  static constexpr std::size_t kMostContainers = 64;

  // The containers that request GPUs, in the order of the pod.
  std::vector<ContainerRequest> containers;
  // For each container, its number in the second-generation annotation of the original
  // (key::kMemAllocation): main containers are numbered first, then sidecars. -1 for init
  // containers.
  std::vector<std::int32_t> original_positions;

  // Totals, as Kubernetes counts them.
  std::uint64_t units = 0;
  std::uint64_t core_percent = 0;
  std::uint64_t whole = 0;

  // Reads the limits of a pod. Fails on amounts that are negative, fractional or too large. The
  // error names the container and the resource.
  static Result<GpuRequest> of_pod(const PodSpec& pod, const ResourceNames& names);

  [[nodiscard]] bool any() const { return !containers.empty(); }

  // Returns which of the pod's `whole` GPUs (0, 1, ...) each container gets, in the order of
  // `containers`. Containers that run together get different GPUs. Init containers use GPUs that
  // other containers get later.
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> split_whole() const;

  friend bool operator==(const GpuRequest&, const GpuRequest&) = default;
};

// A share on `gpus` different GPUs, with `units` and `core_percent` on each.
struct SharePart {
  std::uint32_t units = 0;
  std::uint16_t core_percent = 0;
  std::uint16_t gpus = 0;

  friend bool operator==(const SharePart&, const SharePart&) = default;
};

// The amounts that must be free on one node. Part of the cache key of scores. If a pod has several
// parts (Request::has_several_parts), `share` is only the largest of them.
struct Shape {
  SharePart share;          // gpus == 0: no share
  std::uint16_t whole = 0;  // number of whole GPUs
  NodeUse node;

  friend bool operator==(const Shape&, const Shape&) = default;
};

struct Request {
  // The limits of an annotation that lists models or UUIDs. Requests of many pods are kept, so one
  // pod must not need much memory.
  static constexpr std::size_t kMostListBytes = 4096;  // 99 UUIDs
  static constexpr std::size_t kMostNames = 128;

  GpuRequest gpus;
  Shape shape;
  Placement placement = Placement::kOneGpu;
  std::uint16_t split = 1;  // number of GPUs over which each container's memory is divided

  // If unset, the policy of the cluster applies.
  std::optional<Policy> share_policy;
  std::optional<Policy> whole_policy;

  // Constraints; empty: any. See model_matches().
  std::vector<std::string> models;
  std::vector<std::string> uuids;
  std::vector<std::string> uuids_excluded;

  // Reads the request of a pod. Fails if a limit, label or annotation is invalid. The error names
  // the invalid one and the allowed values.
  static Result<Request> of_pod(const PodSpec& pod, const ResourceNames& names);

  // Returns a request that does not come from a pod. It has one container, which requests
  // `shape.share` and `shape.whole` whole GPUs.
  static Request of_shape(const Shape& shape);

  // Returns the memory of the lists of models and UUIDs, in bytes.
  [[nodiscard]] std::size_t list_bytes() const;
  // Whether several containers share GPUs and their GPUs are chosen separately.
  [[nodiscard]] bool has_several_parts() const;
  // Whether only certain models or UUIDs are allowed.
  [[nodiscard]] bool has_constraints() const {
    return !models.empty() || !uuids.empty() || !uuids_excluded.empty();
  }

  friend bool operator==(const Request&, const Request&) = default;
};

// Returns whether `model` contains the words of `wanted` in sequence, ignoring case. Space, '-' and
// '_' separate words: "A100" matches "NVIDIA A100-SXM4-80GB", "A10" does not.
bool model_matches(std::string_view model, std::string_view wanted);
// Do the same as model_matches() in two steps, for many comparisons of the same names.
// model_words() returns the words in lower case, separated by spaces: " nvidia a100 sxm4 80gb ".
std::string model_words(std::string_view name);
bool words_match(std::string_view words_of_model, std::string_view wanted_words);

}  // namespace tessera::alloc
