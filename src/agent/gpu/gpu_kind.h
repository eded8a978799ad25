// agent/gpu/gpu_kind.h
//
// GPUs as a kind of device. Serves them as shares of memory (gpu-mem) and as whole GPUs (gpu,
// gpu-count).
//
// The extender chooses the GPUs and writes the choice into the pod's annotations (the record). A
// container gets these GPUs, whichever IDs kubelet took.
//
// A container may have been admitted with GPUs that differ from the record. If the delivery strategy
// can no longer change the container's GPUs, the record is repaired before the container starts.
//
// Once a container of a pod has started, the pod keeps its allocated GPUs. A later change of the
// record is ignored, and the record is repaired (record_guard.h).
//
// Use it on the event loop's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/allocations.h"
#include "agent/devices/device_kind.h"
#include "agent/devices/loop_gate.h"
#include "agent/devices/node_context.h"
#include "agent/gpu/decision.h"
#include "agent/gpu/driver_files.h"
#include "agent/gpu/gpu_devices.h"
#include "agent/gpu/leftovers.h"
#include "agent/gpu/record_repair.h"
#include "agent/gpu/record_writer.h"
#include "alloc/inventory.h"

namespace tessera::agent {

// Returns the pods of the node that request GPUs, in bind order.
std::vector<const alloc::PodSpec*> gpu_pods(const NodePods& pods);

class GpuKind final : public DeviceKind {
 public:
  struct Options {
    DriverFilesOptions files{};
    bool can_update = false;         // DeliveryStrategy::can_update
    Leftovers* leftovers = nullptr;  // null: processes of deleted pods are ignored
  };
  struct Counts {
    // Records that were corrected because they did not name the pod's GPUs.
    std::uint64_t repaired = 0;
  };

  // Returns the JSON keys of a share in the state file (allocations.h).
  static Allocations::Keys keys() { return {.device = "gpu", .units = "mem"}; }

  // `allocations` contains GPU allocations. All arguments that are references must outlive this object.
  GpuKind(const NodeContext& node, const Allocations& allocations, RecordWriter& writer, Options options);

  void set_inventory(const alloc::Inventory& inventory);

  // Returns the decision for a pod: what it was allocated if it has started, else what its record
  // says. The verdict is kUndecided if the pod requests no GPU.
  [[nodiscard]] GpuDecision decision_of(const NodePod& pod) const;
  [[nodiscard]] const Counts& counts() const { return counts_; }

  // Writes the annotations of a started pod again if they differ from what the pod was allocated. In
  // this case, returns true and later calls `done` with the result of the write. Otherwise returns false.
  bool repair_started(const NodePod& pod, Done<Status> done);

  [[nodiscard]] std::vector<ResourceList> lists() override;
  [[nodiscard]] std::vector<NodeDevice> devices() const override;
  [[nodiscard]] std::optional<std::string> device_of(const std::string& id) const override;
  [[nodiscard]] Decision decide(const NodePod& pod, const std::string& container,
                                const IdsByResource& ids) const override;
  Result<Edits> edits(const std::vector<DeviceShare>& shares) override;
  [[nodiscard]] Result<Decided> accept_allocated(const NodePod& pod, const std::string& container,
                                                 const Decided& decided,
                                                 const Allocation* allocated) const override;
  [[nodiscard]] std::optional<StartBlock> block_start(const NodePod& pod) const override;
  void before_start(const NodePod& pod, const std::string& container, const Done<Status>& done) override;

 private:
  [[nodiscard]] Decided decided_by(const NodePod& pod, const alloc::Record& record,
                                   const std::string& container) const;
  [[nodiscard]] std::optional<alloc::Record> actual_record(const NodePod& pod) const;
  [[nodiscard]] std::optional<Holding> holding_of(const NodePod& pod) const;
  [[nodiscard]] bool was_admitted_here(const NodePod& pod) const;
  [[nodiscard]] bool keeps_allocated(const NodePod& pod, const alloc::Record& record) const;
  [[nodiscard]] std::vector<Holding> neighbours_of(const NodePod& pod) const;
  [[nodiscard]] Result<RecordRepair> find_repair(const NodePod& pod) const;
  [[nodiscard]] std::optional<StartBlock> leftover_block(const NodePod& pod, const Holding& own,
                                                         const std::vector<Leftover>& found) const;
  void write_record(const NodePod& pod, const std::string& container, bool is_first_start,
                    const Done<Status>& done);
  void repair_and_start(const NodePod& pod, const std::string& container, const RecordRepair& repair,
                        Done<Status> done);

  const NodeContext& node_;
  const Allocations& allocations_;
  RecordWriter& writer_;
  const bool can_update_;
  Leftovers* const leftovers_;
  DriverFilesCache files_;
  LoopGate gate_;
  GpuIds ids_;
  alloc::Inventory inventory_;
  Counts counts_;
};

}  // namespace tessera::agent
