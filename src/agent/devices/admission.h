// agent/devices/allocator.h
//
// Kubelet's three questions, answered for the devices of one kind: which IDs to take, what a container gets,
// and whether it may start.
//
//   Allocator allocator(loop, pods, allocations, strategy, kind, {...});
//   ... plugins.h hands it what a DevicePlugin is asked ...
//
// Here it is found out which pod kubelet means, and kept what was given to it; what that is says the kind.
// Nothing is refused in Allocate, which would be final: what cannot be given is held back before the
// container starts, with the reason, until it can.
//
// On the event loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/devices/allocations.h"
#include "agent/devices/asker.h"
#include "agent/devices/checkpoint.h"
#include "agent/devices/device_kind.h"
#include "agent/devices/grant_strategy.h"
#include "agent/devices/kubelet_answers.h"
#include "agent/devices/node_pods.h"
#include "base/clock.h"
#include "http/event_loop.h"

namespace tessera::agent {

class Allocator {
 public:
  using Milliseconds = std::chrono::milliseconds;

  struct Edges {
    // podresources Get; `done` may come on any thread.
    std::function<void(const PodName&, Milliseconds, PodResources::Done<PodDevices>)> get{};
    // Brings pending pods of this node from the API server into the book; `done` on the loop.
    std::function<void(std::function<void(Status)> done)> fetch{};
    // kubelet's checkpoint, as it is now.
    std::function<Result<Checkpoint>()> checkpoint{};
    // Something about a pod that its owner should read (an Event). Told again, it is the same.
    std::function<void(const NodePod&, const std::string& reason, const std::string& message)> tell{};
    // AskerSearch::Edges::begun.
    std::function<bool(const std::string& pod_uid)> begun{};
    // What was given has changed: it wants to be kept, and held IDs may be others.
    std::function<void()> changed{};
  };

  // What became of kubelet's questions.
  struct Counts {
    std::uint64_t given = 0;                         // containers that got what was decided
    std::map<std::string, std::uint64_t> nothing{};  // got nothing, by Hold::counted_as
    std::uint64_t unknown_pod = 0;                   // got nothing: no pod fits the question
    std::uint64_t other_ids = 0;                     // kubelet took IDs of other devices than decided
    std::uint64_t held = 0;                          // PreStartContainer answered with a reason
    std::uint64_t started = 0;                       // PreStartContainer let go
  };

  // All must live longer.
  Allocator(http::EventLoop& loop, NodePods& pods, Allocations& allocations, GrantStrategy& strategy,
            DeviceKind& kind, Edges edges);
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  ~Allocator();

  // The lists for kubelet, as of now. IDs that containers hold stay in them, as unhealthy, also when their
  // device has gone: kubelet does not count an ID that vanished, and would give its room to others.
  [[nodiscard]] std::vector<ResourceList> lists();

  // kubelet's questions. `done` comes once, on the loop.
  void prefer(const std::string& resource, Preference preference,
              std::function<void(std::vector<std::string>)> done);
  void allocate(const std::string& resource, std::vector<std::string> ids,
                std::function<void(Result<Grant>)> done);
  void pre_start(const std::string& resource, std::vector<std::string> ids, std::function<void(Status)> done);

  // From the book of pods.
  void pod_changed() { search_.pods_changed(); }
  void pod_ended(const std::string& uid);
  // All pods are known: what was given to others is over, and kubelet is asked about pods that run with
  // devices we do not know of.
  void pods_synced();

  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] const AskerSearch& search() const { return search_; }

 private:
  // Whom the last preferred answer was for: the Allocate that follows is for the same.
  struct Preferred {
    Question question;
    Asker asker;
    Clock::Steady at;
  };
  struct Starting;  // a container that waits for leave to start

  // Preferred IDs and allocations: allocator.cc.
  void find_asker(const Question& question, bool from_prefer, AskerSearch::Done done);
  Grant give(const NodePod& pod, const Asker& asker, const std::string& resource,
             const std::vector<std::string>& ids);
  Grant give_unknown(const std::string& resource, const std::vector<std::string>& ids);
  void prepare(ContainerEdits container, const std::string& resource, Grant& grant, Allocation& allocation);
  [[nodiscard]] Result<Edits> edits_of(const std::vector<Share>& shares);
  [[nodiscard]] std::string free_cdi_name(const Allocation& allocation,
                                          const ContainerEdits& container) const;
  [[nodiscard]] bool of_other_devices(const std::vector<std::string>& ids,
                                      const std::vector<Share>& shares) const;

  // Before a container starts: allocator_start.cc.
  // Not those of a plugin that served the resource before us.
  [[nodiscard]] bool are_ours(const std::vector<std::string>& ids) const;
  void start(const std::shared_ptr<Starting>& starting);
  [[nodiscard]] const Allocation* starting_allocation(const Starting& starting) const;
  void verify(const std::shared_ptr<Starting>& starting, const Allocation& allocation);
  void verified(const std::shared_ptr<Starting>& starting, const std::string& uid,
                const std::string& container, const Result<PodDevices>& answer);
  void look_for_holder(const std::shared_ptr<Starting>& starting);
  // The live pod and container that have the IDs by kubelet's checkpoint; `likely` if it is among several.
  [[nodiscard]] std::optional<std::pair<const NodePod*, std::string>> holder_by_checkpoint(
      const Starting& starting, const std::string& likely_uid, const std::string& likely_container) const;
  void let_start(const std::shared_ptr<Starting>& starting, const NodePod& pod, const std::string& container);
  void finish(const std::shared_ptr<Starting>& starting, const std::string& uid, const std::string& container,
              Status status);
  void reply(const std::shared_ptr<Starting>& starting, Status status);
  [[nodiscard]] Decision decide(const NodePod& pod, const std::string& container,
                                const IdsByResource& ids) const;
  // Whether what the container sees can still be changed: by a name that it was handed, not by one that it
  // would be handed now.
  [[nodiscard]] bool can_mend(const Allocation* given) const;
  [[nodiscard]] std::optional<Hold> hold_of(const NodePod& pod, const std::string& container,
                                            const IdsByResource& ids);
  [[nodiscard]] std::optional<Hold> illness(const std::vector<Share>& shares) const;
  Status make_ready(const NodePod& pod, const std::string& container, const Decided& decided);
  void make_others_ready(const NodePod& pod, const std::string& container);

  // What is put together again: allocator_learn.cc.
  // `checkpoint`: read already; else it is when there is something to learn.
  void learn(const NodePod& pod, const PodDevices& devices, const Checkpoint* checkpoint = nullptr);
  // What kubelet says that the container was handed, where that is not what is decided for it now.
  void recall(const Grant& handed, const std::string& resource, Allocation& learned);
  [[nodiscard]] const Allocation* mistaken_for(const NodePod& pod, const std::string& resource,
                                               const std::vector<std::string>& ids) const;
  // Puts what was given to the wrong pods to those that have it.
  void put_right();
  // What was given to a pod that was not known: given again, it has been free since.
  void forget_unknown_with(const std::string& resource, const std::vector<std::string>& ids);
  void forget_unknown_that_ended();
  // The pod has ended: what it had is free. What it may never have had is somebody's who is not known.
  void forget_ended(const std::string& uid);
  void learn_next();
  // What the checkpoint says of pods that are here and that we have no record of.
  void learn_from_checkpoint();
  [[nodiscard]] bool is_known(const NodePod& pod) const;
  void changed();

  http::EventLoop& loop_;
  NodePods& pods_;
  Allocations& allocations_;
  GrantStrategy& strategy_;
  DeviceKind& kind_;
  const std::vector<std::string> resources_;
  Edges edges_;
  AskerSearch search_;
  LoopGate gate_;
  std::optional<Preferred> preferred_;
  std::map<std::string, Clock::Steady> unknown_since_;  // UIDs of unknown pods that this process served
  std::vector<std::string> to_learn_;                   // UIDs
  bool learning_ = false;
  bool change_posted_ = false;
  Counts counts_;
};

// Adds, as unhealthy, those of the IDs that are not in the list. Whether there were any.
bool add_unlisted(const std::vector<std::string>& ids, std::vector<Device>& list);

}  // namespace tessera::agent
