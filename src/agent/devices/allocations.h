// agent/devices/allocations.h
//
// The agent's own record of what it gave to whom, of one kind of device. kubelet tells it too (podresources),
// but not for about a second after it started, not for init containers, and not which device a container
// really sees where kubelet chose IDs on its own; so this is kept beside, in a file that survives a restart.
// Each kind has a book of its own.
//
//   Allocations allocations({.device = "gpu", .units = "mem"});
//   TRY(allocations.parse(text_of_file));
//   allocations.give({.pod = pod, .pod_uid = uid, .container = "main", .shares = shares, .ids = ids});
//   if (allocations.take_changed()) { file.set(allocations.json()); }
//
// On the event loop's thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/devices/allocation.h"
#include "agent/devices/pod_resources.h"
#include "base/result.h"

namespace tessera::agent {

class Allocations {
 public:
  static constexpr std::size_t kMaxBytes = 32U << 20U;

  // What a share is called in the file: {"gpu": "GPU-5d3c...", "mem": 3} of GPUs.
  struct Keys {
    std::string device = "device";
    std::string units = "units";
  };
  explicit Allocations(Keys keys) : keys_(std::move(keys)) {}

  // Replaces all by what json() of an earlier process wrote. Text that cannot be read changes nothing:
  // kubelet and the pods' annotations bring most of it back.
  Status parse(std::string_view text);
  [[nodiscard]] std::string json() const;
  // Whether anything changed since the last call.
  bool take_changed() { return std::exchange(changed_, false); }

  // The container of a pod has these IDs of a resource and sees `shares`. Called once for each resource of
  // the container; the last shares and reason count.
  void give(const Allocation& allocation);
  void hold(const std::string& pod_uid, const std::string& container, std::string why);
  // It starts, so it was this container that asked.
  void confirm(const std::string& pod_uid, const std::string& container);
  void forget(const std::string& pod_uid);

  // Whether a container of the pod was given something.
  [[nodiscard]] bool knows(const std::string& pod_uid) const { return pods_.contains(pod_uid); }
  // Null when it was given nothing.
  [[nodiscard]] const Allocation* find(const std::string& pod_uid, const std::string& container) const;
  // Whether the container has IDs of this resource.
  [[nodiscard]] bool has(const std::string& pod_uid, const std::string& container,
                         const std::string& resource) const;
  // Those that have exactly these IDs (sorted) of a resource. Several containers of one pod may: kubelet
  // uses the IDs of init containers again.
  [[nodiscard]] std::vector<const Allocation*> with_ids(const std::string& resource,
                                                        const std::vector<std::string>& ids) const;
  // Whether a container has this CDI name.
  [[nodiscard]] bool has_cdi_name(const std::string& name) const;
  // Calls for every ID of a resource that is held.
  void each_id(const std::string& resource,
               const std::function<void(const Allocation&, const std::string& id)>& visit) const;

  [[nodiscard]] std::vector<Allocation> all() const;
  [[nodiscard]] std::size_t size() const;

 private:
  Keys keys_;
  bool changed_ = false;
  std::map<std::string, std::map<std::string, Allocation, std::less<>>, std::less<>> pods_;  // UID, container
};

}  // namespace tessera::agent
