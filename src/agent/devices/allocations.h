// agent/devices/allocations.h
//
// The agent's own record of which container has which devices, for one kind of device. kubelet
// reports this too (podresources), but not in the first second after it started, not for init
// containers, and not which device a container really sees where kubelet chose the IDs itself. So
// the agent keeps its own record, in a file that survives a restart (allocation_store.h).
//
//   Allocations allocations({.device = "gpu", .units = "mem"});
//   TRY(allocations.parse(text_of_file));
//   allocations.record({.pod = pod, .pod_uid = uid, .container = "main", .shares = shares});
//   if (allocations.take_changed()) { file.set(allocations.json()); }
//
// On the event loop's thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/devices/allocation.h"
#include "agent/devices/pod_resources.h"
#include "base/result.h"
#include "kube/event_aggregator.h"

namespace tessera::agent {

class Allocations {
 public:
  static constexpr std::size_t kMaxBytes = 32U << 20U;

  // The keys of a share in the file: {"gpu": "GPU-5d3c...", "mem": 3} for GPUs.
  struct Keys {
    std::string device = "device";
    std::string units = "units";
  };
  explicit Allocations(Keys keys) : keys_(std::move(keys)) {}

  // Replaces everything by what json() of an earlier process returned. A text that cannot be parsed
  // changes nothing: most of it can be recovered from kubelet and the pods' annotations.
  Status parse(std::string_view text);
  [[nodiscard]] std::string json() const;
  // Whether anything changed since the last call.
  bool take_changed() { return std::exchange(changed_, false); }

  // Records that a container has these IDs of a resource and sees `shares`. Called once for each
  // resource of the container; the last shares and start block count.
  void record(const Allocation& allocation);
  // Sets why the container may not start; empty when it may.
  void set_start_block(const std::string& pod_uid, const std::string& container, std::string why);
  // Records that the container is certainly the one that asked: it starts.
  void confirm(const std::string& pod_uid, const std::string& container);
  void forget(const std::string& pod_uid);

  // Whether a container of the pod has a device.
  [[nodiscard]] bool has_pod(const std::string& pod_uid) const { return pods_.contains(pod_uid); }
  // Null when the container has nothing.
  [[nodiscard]] const Allocation* find(const std::string& pod_uid, const std::string& container) const;
  // Whether the container has IDs of this resource.
  [[nodiscard]] bool has(const std::string& pod_uid, const std::string& container,
                         const std::string& resource) const;
  // The allocations that have exactly these IDs (sorted) of a resource. Several containers of one
  // pod may: kubelet reuses the IDs of init containers.
  [[nodiscard]] std::vector<const Allocation*> with_ids(const std::string& resource,
                                                        const std::vector<std::string>& ids) const;
  // Whether a container has this CDI name.
  [[nodiscard]] bool has_cdi_name(const std::string& name) const;
  // Every ID of a resource that a container has. The pointers are valid until the next change.
  struct HeldId {
    const Allocation* allocation;
    const std::string* id;
  };
  [[nodiscard]] std::vector<HeldId> held_ids(const std::string& resource) const;
  // The known pods that have a share of this device.
  [[nodiscard]] std::vector<kube::ObjectReference> holders_of(const std::string& device) const;

  [[nodiscard]] std::vector<Allocation> all() const;
  [[nodiscard]] std::size_t size() const;

 private:
  Keys keys_;
  bool changed_ = false;
  std::map<std::string, std::map<std::string, Allocation, std::less<>>, std::less<>> pods_;  // UID, container
};

}  // namespace tessera::agent
