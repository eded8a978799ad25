// agent/gpu_allocator.h
//
// Kubelet's three questions, answered for the GPUs of this node: which IDs to take, what a container gets,
// and whether it may start.
//
//   GpuAllocator allocator(loop, pods, allocations, strategy, {...});
//   allocator.set_inventory(state->inventory);
//   ... gpu_kind.h hands it what a DevicePlugin is asked ...
//
// Decisions are made elsewhere (by the extender, in the pod's annotations); here they are carried out. What
// was decided is given whatever IDs kubelet picked. Nothing is refused in Allocate, which would be final:
// what cannot be given is held back before the container starts, with the reason, until it can.
//
// On the event loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/allocations.h"
#include "agent/asker.h"
#include "agent/checkpoint.h"
#include "agent/decision.h"
#include "agent/device_kind.h"
#include "agent/gpu_ids.h"
#include "agent/gpu_lists.h"
#include "agent/grant_strategy.h"
#include "agent/id_choice.h"
#include "agent/node_pods.h"
#include "agent/record_repair.h"
#include "alloc/inventory.h"
#include "base/clock.h"
#include "http/event_loop.h"

namespace tessera::agent {

class GpuAllocator {
 public:
  using Milliseconds = std::chrono::milliseconds;

  struct Edges {
    // podresources Get; `done` may come on any thread.
    std::function<void(const PodName&, Milliseconds, PodResources::Done<PodDevices>)> get{};
    // Brings pending pods of this node from the API server into the book; `done` on the loop.
    std::function<void(std::function<void(Status)> done)> fetch{};
    // kubelet's checkpoint, as it is now.
    std::function<Result<Checkpoint>()> checkpoint{};
    // Writes to the pod's annotations what a repair wants; `done` on the loop.
    std::function<void(const NodePod&, const RecordRepair&, std::function<void(const Status&)> done)>
        repair{};
    // Something about a pod that its owner should read (an Event). Told again, it is the same.
    std::function<void(const NodePod&, const std::string& reason, const std::string& message)> tell{};
    // What was given has changed: it wants to be kept, and held IDs may be others.
    std::function<void()> changed{};
  };

  // What became of kubelet's questions.
  struct Counts {
    std::uint64_t given = 0;        // containers that got what was decided
    std::uint64_t undecided = 0;    // got nothing: nobody decided
    std::uint64_t broken = 0;       // got nothing: a record that is not believed
    std::uint64_t lost_gpu = 0;     // got nothing: the GPU is not here
    std::uint64_t unknown_pod = 0;  // got nothing: no pod fits the question
    std::uint64_t other_ids = 0;    // kubelet took IDs of other GPUs than decided
    std::uint64_t repaired = 0;     // records that said other than kubelet gave
    std::uint64_t held = 0;         // PreStartContainer answered with a reason
    std::uint64_t started = 0;      // PreStartContainer let go
  };

  GpuAllocator(http::EventLoop& loop, NodePods& pods, Allocations& allocations, GrantStrategy& strategy,
               Edges edges);
  GpuAllocator(const GpuAllocator&) = delete;
  GpuAllocator& operator=(const GpuAllocator&) = delete;
  ~GpuAllocator();

  void set_inventory(const alloc::Inventory& inventory);
  [[nodiscard]] const alloc::Inventory& inventory() const { return inventory_; }
  // The lists for kubelet, as of now.
  [[nodiscard]] GpuLists lists();

  // kubelet's questions. `done` comes once, on the loop.
  void prefer(alloc::GpuResource resource, Preference preference,
              std::function<void(std::vector<std::string>)> done);
  void allocate(alloc::GpuResource resource, std::vector<std::string> ids,
                std::function<void(Result<Grant>)> done);
  void pre_start(alloc::GpuResource resource, std::vector<std::string> ids, std::function<void(Status)> done);

  // From the book of pods.
  void pod_changed(const NodePod& pod);
  void pod_ended(const std::string& uid);
  // All pods are known: what was given to others is over, and kubelet is asked about pods that run with
  // GPUs we do not know of.
  void pods_synced();

  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] const AskerSearch& search() const { return search_; }
  [[nodiscard]] Decision decision_of(const NodePod& pod) const;

 private:
  // Whom the last preferred answer was for: the Allocate that follows is for the same.
  struct Preferred {
    Question question;
    Asker asker;
    Clock::Steady at;
  };
  struct Starting;  // a container that waits for leave to start

  void find_asker(const Question& question, bool from_prefer, AskerSearch::Done done);
  [[nodiscard]] Wanted wanted_of(const NodePod& pod, const std::string& container,
                                 alloc::GpuResource resource) const;
  Grant give(const NodePod& pod, const Asker& asker, const std::string& resource,
             std::vector<std::string> ids);
  Grant give_unknown(const std::string& resource, const std::vector<std::string>& ids);
  void prepare(ContainerGpus container, const std::string& resource, Grant& grant, Allocation& allocation);
  [[nodiscard]] std::string free_cdi_name(const Allocation& allocation, const ContainerGpus& container) const;
  void count(const NodePod& pod, const Decision& decision);
  [[nodiscard]] bool of_other_gpus(const std::vector<std::string>& ids,
                                   const std::vector<alloc::Grant>& grants) const;
  [[nodiscard]] ContainerGpus gpus_for(const NodePod& pod, const std::string& container,
                                       const std::vector<alloc::Grant>& grants) const;

  void start(const std::shared_ptr<Starting>& starting);
  [[nodiscard]] const Allocation* starting_allocation(const Starting& starting) const;
  void verify(const std::shared_ptr<Starting>& starting, const Allocation& allocation);
  void verified(const std::shared_ptr<Starting>& starting, const std::string& uid,
                const std::string& container, const Result<PodDevices>& answer);
  void look_for_holder(const std::shared_ptr<Starting>& starting);
  // The live pod and container that have the IDs by kubelet's checkpoint; `likely` if it is among several.
  [[nodiscard]] std::optional<std::pair<const NodePod*, std::string>> holder_by_checkpoint(
      const Starting& starting, const std::string& likely_uid, const std::string& likely_container) const;
  // Puts what was given to the wrong pods to those that have it.
  void put_right();
  void let_start(const std::shared_ptr<Starting>& starting, const NodePod& pod, const std::string& container);
  void finish(const std::shared_ptr<Starting>& starting, Status status);
  void let_start_as(const std::shared_ptr<Starting>& starting, const std::string& uid,
                    const std::string& container, Status status);
  void repair_and_start(const std::shared_ptr<Starting>& starting, const NodePod& pod,
                        const std::string& container, const RecordRepair& repair);
  Status may_start(const NodePod& pod, const std::string& container, RecordRepair& repair);
  Status make_ready(const NodePod& pod, const std::string& container, const alloc::Record& record);
  void make_others_ready(const NodePod& pod, const std::string& container, const alloc::Record& record);
  Result<alloc::Record> mended(const NodePod& pod, const std::string& container,
                               const alloc::Record& decided);
  [[nodiscard]] std::optional<alloc::Record> truth_of(const NodePod& pod) const;
  [[nodiscard]] std::string overcommitment(const NodePod& pod, const alloc::Record& record) const;
  void learn(const NodePod& pod, const PodDevices& devices);
  [[nodiscard]] const Allocation* mistaken_for(const NodePod& pod, const std::string& resource,
                                               const std::vector<std::string>& ids) const;
  // What was given to a pod that was not known: given again, it has been free since.
  void forget_unknown_with(const std::string& resource, const std::vector<std::string>& ids);
  void forget_unknown_that_ended();
  // The pod has ended: what it had is free. What it may never have had is somebody's who is not known.
  void forget_ended(const std::string& uid);
  void learn_next();
  // What the checkpoint says of pods that are here and that we have no record of.
  void learn_from_checkpoint();
  void changed();

  http::EventLoop& loop_;
  NodePods& pods_;
  Allocations& allocations_;
  GrantStrategy& strategy_;
  Edges edges_;
  AskerSearch search_;
  LoopGate gate_;
  GpuIds ids_;
  alloc::Inventory inventory_;
  std::optional<Preferred> preferred_;
  std::map<std::string, Clock::Steady> unknown_since_;  // UIDs of unknown pods that this process served
  std::vector<std::string> to_learn_;                   // UIDs
  bool learning_ = false;
  bool change_posted_ = false;
  Counts counts_;
};

}  // namespace tessera::agent
