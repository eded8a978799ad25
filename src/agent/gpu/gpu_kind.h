// agent/gpu/gpu_kind.h
//
// GPUs as a kind of device: offered as shares of memory (gpu-mem) and as a whole (gpu, gpu-count).
//
// Decisions are made elsewhere (by the extender, in the pod's annotations); here they are carried out. What
// was decided is given whatever IDs kubelet picked, and where a container has other GPUs than its pod's
// record says, the record is put right before it starts.
//
// On the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/allocations.h"
#include "agent/devices/device_kind.h"
#include "agent/devices/loop_gate.h"
#include "agent/devices/node_pods.h"
#include "agent/gpu/decision.h"
#include "agent/gpu/driver_files.h"
#include "agent/gpu/gpu_ids.h"
#include "agent/gpu/record_repair.h"
#include "alloc/inventory.h"
#include "alloc/names.h"
#include "http/event_loop.h"

namespace tessera::agent {

class GpuKind final : public DeviceKind {
 public:
  struct Edges {
    // Writes to the pod's annotations what a repair wants; `done` on the loop.
    std::function<void(const NodePod&, const RecordRepair&, std::function<void(const Status&)> done)>
        repair{};
    // Something about a pod that its owner should read (an Event).
    std::function<void(const NodePod&, const std::string& reason, const std::string& message)> tell{};
  };
  struct Options {
    DriverFilesOptions files{};
    bool mends = false;  // GrantStrategy::can_mend
  };
  struct Counts {
    std::uint64_t repaired = 0;  // records that said other than kubelet gave
  };

  // What its file calls a share (allocations.h).
  static Allocations::Keys keys() { return {.device = "gpu", .units = "mem"}; }

  // `pods` and `book`, what was given of GPUs, must live longer, and so must `names`.
  GpuKind(http::EventLoop& loop, const alloc::ResourceNames& names, const NodePods& pods,
          const Allocations& book, Options options, Edges edges);

  void set_inventory(const alloc::Inventory& inventory);
  [[nodiscard]] const alloc::Inventory& inventory() const { return inventory_; }

  // What was decided for a pod; undecided for one that asks for no GPU.
  [[nodiscard]] GpuDecision decision_of(const NodePod& pod) const;
  // Those of the node's pods that ask for GPUs, in bind order.
  [[nodiscard]] std::vector<const alloc::PodSpec*> pods() const;
  [[nodiscard]] const Counts& counts() const { return counts_; }

  [[nodiscard]] const KindWords& words() const override;
  [[nodiscard]] std::vector<std::string> resources() const override;
  [[nodiscard]] std::vector<ResourceList> lists() override;
  [[nodiscard]] std::vector<NodeDevice> devices() const override;
  [[nodiscard]] std::optional<std::string> device_of(const std::string& id) const override;
  [[nodiscard]] bool is_ours(const std::string& id) const override;
  [[nodiscard]] Decision decide(const NodePod& pod, const std::string& container,
                                const IdsByResource& ids) const override;
  [[nodiscard]] Env env_of_none() const override;
  [[nodiscard]] std::optional<std::vector<Share>> seen(const Env& handed,
                                                       const std::vector<Share>& decided) const override;
  Result<Edits> edits(const std::vector<Share>& shares) override;
  [[nodiscard]] Wanted wanted(const NodePod& pod, const std::string& container,
                              const std::string& resource) const override;
  [[nodiscard]] Result<Decided> as_given(const NodePod& pod, const std::string& container,
                                         const Decided& decided, const Allocation* given) const override;
  [[nodiscard]] std::optional<Hold> objection(const NodePod& pod,
                                              const std::vector<Share>& shares) const override;
  void before_start(const NodePod& pod, const std::string& container,
                    std::function<void(Status)> done) override;

 private:
  [[nodiscard]] Decided decided_by(const NodePod& pod, const alloc::Record& record,
                                   const std::string& container) const;
  // What the containers of a pod have, as far as that is settled.
  [[nodiscard]] std::optional<alloc::Record> truth_of(const NodePod& pod) const;
  void repair_and_start(const NodePod& pod, const std::string& container, const RecordRepair& repair,
                        std::function<void(Status)> done);

  const alloc::ResourceNames& names_;
  const NodePods& pods_;
  const Allocations& book_;
  const bool mends_;
  DriverFilesCache files_;
  const Edges edges_;
  LoopGate gate_;
  GpuIds ids_;
  alloc::Inventory inventory_;
  Counts counts_;
};

}  // namespace tessera::agent
