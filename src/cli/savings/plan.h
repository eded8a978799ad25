// cli/savings/plan.h
//
// Answers "what would sharing save?": how many GPUs would the pods of a cluster need if those that
// can share a GPU did? A pure function of the cluster, the measurements and the rules. Places pods
// with the Ledger and Placer that the extender uses.
//
//   const SavingsReport report = plan_savings(cluster, measurements, rules);
//   report.gpus_held, report.outcomes.front().gpus
//
// Pods that stay whole keep their node. A pod that may share can move to another node only if the
// node is in the same pool, has the same GPU model, and meets the pod's nodeSelector, required node
// affinity and tolerations. A pod whose place depends on other pods stays on its node. GPU memory,
// compute, CPU and memory of the node must suffice.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alloc/request.h"
#include "alloc/units.h"
#include "base/clock.h"
#include "base/result.h"
#include "cli/cluster/cluster.h"
#include "cli/cluster/label_selector.h"
#include "cli/savings/measurements.h"

namespace tessera::cli {

// Numbers by GPU model, with an optional number for all other models: "A100=3.1,T4=0.4" or "2.5".
struct ByModel {
  std::vector<std::pair<std::string, double>> models{};  // words that model_matches() finds
  std::optional<double> others{};

  [[nodiscard]] std::optional<double> find(std::string_view model) const;
  [[nodiscard]] bool empty() const { return models.empty() && !others; }
};

struct SavingsRules {
  alloc::Unit unit{};
  std::vector<alloc::Policy> policies{alloc::Policy::kBinpack};  // at least one; the first is the answer

  // The share that a pod would request: the measured memory, plus headroom, plus the reserve,
  // rounded up to units.
  std::int64_t headroom_percent = 20;
  std::int64_t reserve_mib = 512;
  // Memory of each GPU that is not shared, because the driver keeps it. An inventory overrides it.
  static constexpr std::uint32_t kDriverMib = 512;

  double max_utilization = 50;  // a pod with more stays whole
  double gpu_utilization = 80;  // limit for the sum over the pods on one shared GPU
  // A pod with more than this percentage cannot share under either limit.
  [[nodiscard]] double busiest_share() const {
    return max_utilization < gpu_utilization ? max_utilization : gpu_utilization;
  }
  bool ignore_utilization = false;
  double idle_utilization = 1;  // an allocated GPU with less is idle

  // Which pods may share; empty lists allow all.
  std::vector<std::string> namespaces{};
  std::vector<std::string> excluded_namespaces{};
  LabelSelector selector{};
  std::int64_t min_age_s = 0;        // a younger pod stays whole
  std::optional<Clock::Wall> now{};  // unset: ages are not checked

  std::vector<std::string> resources{"nvidia.com/gpu"};        // whole GPUs, in addition to Tessera's own
  std::vector<std::string> unshared_resources{"amd.com/gpu"};  // GPUs that Tessera cannot share
  std::string pool_label{};                                    // empty: known labels, else the model
  ByModel gpu_memory_mib{};                                    // overrides the nodes' labels
  ByModel price{};                                             // of one GPU for one hour
};

// Returns the resources that the cluster must be read with (ClusterQuery::resources).
std::vector<std::string> resources_to_read(const SavingsRules& rules);

// Why a pod keeps its whole GPUs.
enum class Whole : std::uint8_t {
  kSeveralGpus,
  kOtherVendor,
  kExcluded,
  kUnknownModel,      // its node has several models, and no record says which one it holds
  kUnknownGpuMemory,  // of its node's GPUs
  kTooYoung,
  kNoMemoryMeasured,
  kNoUtilizationMeasured,
  kTooBusy,
  kTooLarge,  // for its GPU, with headroom
  kNoRoom,    // it could share, but no node it may use has room for it
};
inline constexpr std::size_t kWholeReasons = 11;

// Returns the words after "the pod": "requests more than one GPU".
std::string whole_text(Whole why, const SavingsRules& rules);
// A word for programs: "several_gpus".
std::string_view to_string(Whole why);

// Why a pod that may share would be alone on its GPU: what it lacks on the GPUs of other pods.
enum class Alone : std::uint8_t {
  kNoPartner,    // no other pod of its node pool and GPU model can share
  kConstraints,  // it may not run on the nodes of other pods that share
  kMemory,       // of the GPU
  kUtilization,
  kCpu,
  kHostMemory,
  kPolicy,  // nothing; the policy keeps pods apart
};

// Returns the words after "because": "the GPUs of other pods have too little free memory".
std::string alone_text(const std::vector<Alone>& why, const SavingsRules& rules);
// A word for programs: "memory".
std::string_view to_string(Alone why);

// A pod that holds whole GPUs.
struct SavingsPod {
  std::string namespace_name{};
  std::string name{};
  std::string node{};
  std::size_t group = 0;  // in SavingsReport::groups
  std::int64_t gpus = 0;
  std::optional<double> memory_mib{};           // measured, of the GPU that uses most
  std::optional<double> utilization_percent{};  // measured, of the busiest GPU
  std::int64_t idle_gpus = 0;
  std::optional<Whole> whole{};  // unset: it may share
  std::uint32_t units = 0;       // of the share that it would request
  // Where it would share a GPU (policy of the first outcome).
  std::string new_node{};
  std::uint32_t new_gpu = 0;      // index
  std::vector<Alone> alone{};     // not empty: no other pod would share this GPU
  bool takes_all_memory = false;  // too large although it is not busy: its framework may take all

  [[nodiscard]] std::string text() const { return namespace_name + "/" + name; }
};

// A GPU that several pods, or one pod with a share (SavingsPod::alone), would use.
struct SharedGpu {
  std::string node{};
  std::uint32_t index = 0;
  std::size_t group = 0;
  std::uint32_t total_units = 0;
  std::uint32_t used_units = 0;
  std::vector<std::size_t> pods{};  // in SavingsReport::pods
  bool shared_now = false;          // pods share it already
};

// The GPUs of one model in one node pool.
struct SavingsGroup {
  std::string pool{};
  std::string model{};                        // empty: unknown
  std::optional<std::uint32_t> memory_mib{};  // of one GPU
  std::int64_t nodes = 0;
  std::int64_t gpus = 0;
  std::int64_t held = 0;                   // by pods, now
  std::int64_t idle = 0;                   // part of `held`
  std::int64_t shared_now = 0;             // part of `held`: pods share them already
  std::int64_t whole = 0;                  // would stay whole
  std::int64_t shared = 0;                 // would be shared by several pods
  std::int64_t alone = 0;                  // would be used by one pod with a share
  std::int64_t at_least = 0;               // no placement needs fewer GPUs
  std::vector<std::string> freed_nodes{};  // nodes that would hold no GPU pod any more
  std::int64_t freed_node_gpus = 0;        // all GPUs of these nodes
  std::int64_t empty_nodes = 0;            // nodes that already hold no GPU pod
  std::int64_t empty_node_gpus = 0;
  std::optional<double> price{};

  [[nodiscard]] std::int64_t unallocated() const { return gpus > held ? gpus - held : 0; }
  [[nodiscard]] std::int64_t needed() const { return whole + shared + alone; }
  [[nodiscard]] std::int64_t saved() const { return held - needed(); }
};

// The result of one policy.
struct PolicyOutcome {
  alloc::Policy policy{};
  std::int64_t gpus = 0;  // needed, if the largest shares are placed first
  std::int64_t freed_nodes = 0;
  // The range over random orders of arrival.
  std::int64_t fewest = 0;
  std::int64_t most = 0;
};

struct SavingsReport {
  static constexpr int kOrders = 20;  // random orders of arrival that each policy is tried with

  std::vector<SavingsGroup> groups{};  // by pool and model
  std::vector<SavingsPod> pods{};      // by namespace and name
  std::vector<SharedGpu> shared{};     // by node and index
  std::vector<PolicyOutcome> outcomes{};
  std::int64_t gpus = 0;
  std::int64_t held = 0;
  std::int64_t needed = 0;
  std::int64_t already_shared = 0;  // GPUs that pods already share; part of `held`
  // Left as they are and not counted above: pods and devices of MIG and of time-slicing.
  std::int64_t mig_pods = 0;
  std::int64_t mig_devices = 0;
  std::int64_t sliced_pods = 0;
  std::int64_t sliced_nodes = 0;
  std::int64_t waiting_pods = 0;  // pods without a node that request whole GPUs
  std::int64_t waiting_gpus = 0;
  std::int64_t other_pods_on_freed_nodes = 0;  // pods without GPUs, except those that cannot leave their node
  std::string measured_by{};                   // Measurements::source
  std::size_t unmatched_rows = 0;              // of a CSV file: rows of pods that are not in the cluster
  std::vector<std::string> warnings{};

  [[nodiscard]] std::int64_t saved() const { return held - needed; }
  [[nodiscard]] std::int64_t idle() const;
};

SavingsReport plan_savings(const Cluster& cluster, const Measurements& measured, const SavingsRules& rules);

}  // namespace tessera::cli
