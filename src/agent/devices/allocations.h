// agent/devices/allocations.h
//
// All allocations of this node for one kind of device: which container has which devices.
//
// kubelet reports allocations too (podresources), but its reports have gaps:
//   - It reports nothing during the first second after its start.
//   - It does not report init containers.
//   - It reports the IDs that it chose, which may belong to devices that the container does not see.
// So the agent keeps its own allocations, in a file that survives a restart (allocation_store.h).
//
//   Allocations allocations({.device = "gpu", .units = "mem"});
//   TRY(allocations.parse(text_of_file));
//   allocations.record({.pod = pod, .pod_uid = uid, .container = "main", .shares = shares});
//   if (allocations.take_changed()) { file.set(allocations.json()); }
//
// All calls are made on the event loop's thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/devices/allocation.h"
#include "agent/devices/pod_resources.h"
#include "alloc/pod.h"
#include "base/clock.h"
#include "base/result.h"
#include "kube/event_aggregator.h"

namespace tessera::agent {

class Allocations {
 public:
  static constexpr std::size_t kMaxBytes = 32U << 20U;

  // JSON keys of a share in the file. For GPUs: {"gpu": "GPU-5d3c...", "mem": 3}.
  struct Keys {
    std::string device = "device";
    std::string units = "units";
  };
  explicit Allocations(Keys keys) : keys_(std::move(keys)) {}

  // Replaces all allocations with those in `text`, the json() of an earlier process. Fails and
  // changes nothing if `text` is invalid. The caller can then recover most allocations from kubelet
  // and from the pods' annotations.
  Status parse(std::string_view text);
  [[nodiscard]] std::string json() const;
  // Returns whether anything has changed since the last call.
  bool take_changed() { return std::exchange(changed_, false); }

  // Records an allocation. Called once for each resource of a container. The IDs and CDI names of
  // these calls are merged. The other fields are those of the last call, except that `guessed`
  // stays true once it is set.
  void record(const Allocation& allocation);
  // Sets why the container may not start; empty if it may.
  void set_start_block(const std::string& pod_uid, const std::string& container, std::string message);
  // Sets Allocation::started. Does nothing if the container has no allocation.
  void set_started(const std::string& pod_uid, const std::string& container, bool started);
  // Clears Allocation::guessed. Called when it is certain which container has the IDs.
  void confirm(const std::string& pod_uid, const std::string& container);
  // Removes the allocations of a pod. Those of containers that have started move to ended().
  void forget(const std::string& pod_uid);

  // An allocation of a pod that has ended. The container may have processes that still run.
  struct Ended {
    Allocation allocation;
    Clock::Steady at;
  };
  // Returns the most recently ended allocations, the oldest first. json() does not include them.
  [[nodiscard]] std::vector<Ended>& ended() { return ended_; }

  // Returns whether a container of the pod has an allocation.
  [[nodiscard]] bool has_pod(const std::string& pod_uid) const { return pods_.contains(pod_uid); }
  // Returns whether a container of the pod has started with devices of this kind: StartGate allowed
  // the start, or the pod's status shows it. Containers without devices do not count.
  [[nodiscard]] bool has_started(const alloc::PodSpec& pod) const;
  // Returns null if the container has no allocation.
  [[nodiscard]] const Allocation* find(const std::string& pod_uid, const std::string& container) const;
  // Returns whether the container has IDs of this resource.
  [[nodiscard]] bool has(const std::string& pod_uid, const std::string& container,
                         const std::string& resource) const;
  // Returns the allocations whose IDs of `resource` are exactly `ids`, which must be sorted. Several
  // containers of a pod may have the same IDs, because kubelet reuses the IDs of init containers for
  // later containers.
  [[nodiscard]] std::vector<const Allocation*> with_ids(const std::string& resource,
                                                        const std::vector<std::string>& ids) const;
  // Returns whether a container has this CDI name.
  [[nodiscard]] bool has_cdi_name(const std::string& name) const;
  // An ID that kubelet allocated to a container, and the allocation of that container. The pointers
  // are valid until the next change of this object.
  struct HeldId {
    const Allocation* allocation;
    const std::string* id;
  };
  // Returns the IDs of `resource` that containers have.
  [[nodiscard]] std::vector<HeldId> held_ids(const std::string& resource) const;
  // Returns the pods that have a share of this device, except unknown pods (is_unknown_pod).
  [[nodiscard]] std::vector<kube::ObjectReference> holders_of(const std::string& device) const;

  [[nodiscard]] std::vector<Allocation> all() const;
  [[nodiscard]] std::size_t size() const;

 private:
  [[nodiscard]] Allocation* find_mutable(const std::string& pod_uid, const std::string& container);

  Keys keys_;
  bool changed_ = false;
  std::vector<Ended> ended_;
  std::map<std::string, std::map<std::string, Allocation, std::less<>>, std::less<>> pods_;  // UID, container
};

}  // namespace tessera::agent
