// alloc/names.h
//
// Every name that Tessera uses in Kubernetes objects. No other file spells them out.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::alloc {

// The resources that a container can request in its limits.
enum class GpuResource {
  kMemory,       // aliyun.com/gpu-mem
  kWhole,        // aliyun.com/gpu
  kCount,        // aliyun.com/gpu-count, an older name of kWhole
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

  // Checks that Kubernetes accepts these names and that all differ. Returns kInvalid with the name
  // of the wrong setting.
  static Status check(const Config& config);

  ResourceNames() : ResourceNames(Config{}) {}
  explicit ResourceNames(const Config& config);

  // Returns the GPU resource with this name, or nullopt if there is none. For decoders of container
  // limits.
  [[nodiscard]] std::optional<GpuResource> find(std::string_view name) const;

  [[nodiscard]] const std::string& name(GpuResource resource) const;
  [[nodiscard]] const std::string& memory() const { return memory_; }
  [[nodiscard]] const std::string& whole() const { return whole_; }
  // The name of kCount. It is also the key of the pod label or annotation that splits gpu-mem over
  // several GPUs.
  [[nodiscard]] const std::string& count() const { return count_; }
  [[nodiscard]] const std::string& core_percent() const { return core_; }

 private:
  std::string memory_;
  std::string whole_;
  std::string count_;
  std::string core_;
};

namespace key {

// Pod annotations that users write.
inline constexpr std::string_view kPolicy = "tessera.io/policy";
inline constexpr std::string_view kPlacement = "tessera.io/placement";
inline constexpr std::string_view kGpuModel = "tessera.io/gpu-model";
inline constexpr std::string_view kGpuUuids = "tessera.io/gpu-uuids";
inline constexpr std::string_view kGpuUuidsExclude = "tessera.io/gpu-uuids-exclude";

// Annotations that Tessera writes.
inline constexpr std::string_view kInventory = "tessera.io/inventory";  // on nodes
// On nodes. The agent sets kDraining before it ends, to a value that identifies its process. The
// extender sets kDrainingSeen to the same value when it no longer binds pods to the node.
inline constexpr std::string_view kDraining = "tessera.io/draining";
inline constexpr std::string_view kDrainingSeen = "tessera.io/draining-seen";
inline constexpr std::string_view kOwnLabels =
    "tessera.io/labels";  // on nodes: the labels that the agent wrote
inline constexpr std::string_view kAllocation = "tessera.io/allocation";  // on pods
// Keys on Tessera's own pods. kLeader is the label of the leading extender. The others are
// annotations: the schedulerName that GPU pods must use, and the resource names and policies of the
// cluster.
inline constexpr std::string_view kLeader = "tessera.io/leader";
inline constexpr std::string_view kSchedulerName = "tessera.io/scheduler-name";
inline constexpr std::string_view kResourcePrefix = "tessera.io/resource-prefix";
inline constexpr std::string_view kResourceWhole = "tessera.io/resource-whole";
inline constexpr std::string_view kSharedPolicy = "tessera.io/policy-shared";
inline constexpr std::string_view kWholePolicy = "tessera.io/policy-whole";

// Annotations of the original systems on nodes.
inline constexpr std::string_view kGpuTopology = "GPU_TOPOLOGY";
inline constexpr std::string_view kGsocLinkPrefix = "GSOC_DEV_";  // then <i>_<j>
inline constexpr std::string_view kNodeType = "NODE_TYPE";        // the cloud's instance type
// Annotations of the original systems on pods that share a GPU. The second generation of gpushare
// writes kMemAllocation, the first generation the others. The first four are also variables in the
// container.
inline constexpr std::string_view kMemIdx = "ALIYUN_COM_GPU_MEM_IDX";
inline constexpr std::string_view kMemPod = "ALIYUN_COM_GPU_MEM_POD";
inline constexpr std::string_view kMemDev = "ALIYUN_COM_GPU_MEM_DEV";
inline constexpr std::string_view kMemContainer = "ALIYUN_COM_GPU_MEM_CONTAINER";
inline constexpr std::string_view kMemAssigned = "ALIYUN_COM_GPU_MEM_ASSIGNED";
inline constexpr std::string_view kMemAssumeTime = "ALIYUN_COM_GPU_MEM_ASSUME_TIME";
inline constexpr std::string_view kMemAllocation = "scheduler.framework.gpushare.allocation";
// Annotations of the original systems on pods with whole GPUs.
inline constexpr std::string_view kWholeGroup = "ALIYUN_COM_GPU_GROUP";
inline constexpr std::string_view kWholeIdx = "ALIYUN_COM_GPU_IDX";
inline constexpr std::string_view kWholeCountPod = "ALIYUN_COM_GPU_COUNT_POD";
inline constexpr std::string_view kWholeAssigned = "ALIYUN_COM_GPU_ASSIGNED";
inline constexpr std::string_view kWholeAssumeTime = "ALIYUN_COM_GPU_ASSUME_TIME";

// The annotations that record a pod's GPUs. A Binding overwrites only the keys that it carries.
inline constexpr std::array kRecord = {kAllocation, kMemIdx, kMemPod, kMemAllocation, kWholeGroup, kWholeIdx};

// Container variables.
inline constexpr std::string_view kVisibleDevices = "NVIDIA_VISIBLE_DEVICES";

// Returns whether src/alloc reads the pod annotation `name`. Decoders of pods drop the others,
// except ResourceNames::count(), which may be a label or an annotation.
bool is_pod_annotation(std::string_view name);

}  // namespace key

}  // namespace tessera::alloc
