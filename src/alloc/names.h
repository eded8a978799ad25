// alloc/names.h
//
// Every name that stands in objects of Kubernetes because of us. Nobody else spells them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::alloc {

// What a container can ask for in its limits.
enum class GpuResource {
  kMemory,       // aliyun.com/gpu-mem
  kWhole,        // aliyun.com/gpu
  kCount,        // aliyun.com/gpu-count, an older name of the same
  kCorePercent,  // aliyun.com/gpu-core.percentage
};

// The resource names of this cluster. The prefix and the whole-GPU resource can be renamed:
//
//   ResourceNames names({.prefix = "example.com", .whole = "nvidia.com/gpu"});
class ResourceNames {
 public:
  struct Config {
    std::string prefix = "aliyun.com";
    // The whole-GPU resource; "<prefix>/gpu" if empty.
    std::string whole;
  };

  // Whether Kubernetes takes these names and they can be told apart; kInvalid says which of the two is wrong.
  static Status check(const Config& config);

  ResourceNames() : ResourceNames(Config{}) {}
  explicit ResourceNames(const Config& config);

  // Which of ours `name` is, if any: for whoever decodes the limits of a container.
  [[nodiscard]] std::optional<GpuResource> find(std::string_view name) const;

  [[nodiscard]] const std::string& name(GpuResource resource) const;
  [[nodiscard]] const std::string& memory() const { return memory_; }
  [[nodiscard]] const std::string& whole() const { return whole_; }
  // Also the pod label or annotation that splits gpu-mem over several GPUs.
  [[nodiscard]] const std::string& count() const { return count_; }
  [[nodiscard]] const std::string& core_percent() const { return core_; }

 private:
  std::string memory_;
  std::string whole_;
  std::string count_;
  std::string core_;
};

namespace key {

// Pod annotations of users.
inline constexpr std::string_view kPolicy = "tessera.io/policy";
inline constexpr std::string_view kPlacement = "tessera.io/placement";
inline constexpr std::string_view kGpuModel = "tessera.io/gpu-model";
inline constexpr std::string_view kGpuUuids = "tessera.io/gpu-uuids";
inline constexpr std::string_view kGpuUuidsExclude = "tessera.io/gpu-uuids-exclude";

// Annotations of Tessera.
inline constexpr std::string_view kInventory = "tessera.io/inventory";    // on nodes
inline constexpr std::string_view kOwnLabels = "tessera.io/labels";       // on nodes: labels that are ours
inline constexpr std::string_view kAllocation = "tessera.io/allocation";  // on pods
// Of Tessera's own pods: a label of the extender that leads; annotations that say by which schedulerName
// pods get to a scheduler, and what the cluster's resources and policies are.
inline constexpr std::string_view kLeader = "tessera.io/leader";
inline constexpr std::string_view kSchedulerName = "tessera.io/scheduler-name";
inline constexpr std::string_view kResourcePrefix = "tessera.io/resource-prefix";
inline constexpr std::string_view kResourceWhole = "tessera.io/resource-whole";
inline constexpr std::string_view kSharedPolicy = "tessera.io/policy-shared";
inline constexpr std::string_view kWholePolicy = "tessera.io/policy-whole";

// Annotations of the systems that Tessera replaces: on nodes ...
inline constexpr std::string_view kGpuTopology = "GPU_TOPOLOGY";
inline constexpr std::string_view kGsocLinkPrefix = "GSOC_DEV_";  // then <i>_<j>
// ... on pods that share a GPU, first and second generation; the first four are also container env ...
inline constexpr std::string_view kMemIdx = "ALIYUN_COM_GPU_MEM_IDX";
inline constexpr std::string_view kMemPod = "ALIYUN_COM_GPU_MEM_POD";
inline constexpr std::string_view kMemDev = "ALIYUN_COM_GPU_MEM_DEV";
inline constexpr std::string_view kMemContainer = "ALIYUN_COM_GPU_MEM_CONTAINER";
inline constexpr std::string_view kMemAssigned = "ALIYUN_COM_GPU_MEM_ASSIGNED";
inline constexpr std::string_view kMemAssumeTime = "ALIYUN_COM_GPU_MEM_ASSUME_TIME";
inline constexpr std::string_view kMemAllocation = "scheduler.framework.gpushare.allocation";
// ... and on pods with whole GPUs.
inline constexpr std::string_view kWholeGroup = "ALIYUN_COM_GPU_GROUP";
inline constexpr std::string_view kWholeIdx = "ALIYUN_COM_GPU_IDX";
inline constexpr std::string_view kWholeCountPod = "ALIYUN_COM_GPU_COUNT_POD";
inline constexpr std::string_view kWholeAssigned = "ALIYUN_COM_GPU_ASSIGNED";
inline constexpr std::string_view kWholeAssumeTime = "ALIYUN_COM_GPU_ASSUME_TIME";

// What decides where a pod's GPUs are, for those who read it. A Binding overwrites only the keys that it
// carries.
inline constexpr std::array kRecord = {kAllocation, kMemIdx, kMemPod, kMemAllocation, kWholeGroup, kWholeIdx};

// Container env.
inline constexpr std::string_view kVisibleDevices = "NVIDIA_VISIBLE_DEVICES";

// Whether `name` is an annotation of a pod that this folder reads: for whoever decodes pods and drops the
// rest. The label or annotation ResourceNames::count() is wanted as well.
bool is_pod_annotation(std::string_view name);

}  // namespace key

}  // namespace tessera::alloc
