// agent/devices/node_pods.h
//
// The pods of this node that request devices which the agent serves, as the API server reports
// them. kubelet's device-plugin calls name no pod, so the agent looks for the pod here. The
// pod is usually the next one in bind order.
//
// Filled by a Reflector whose selector is spec.nodeName. All calls are made on the event loop's
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/devices/pod_resources.h"
#include "alloc/names.h"
#include "alloc/pod.h"
#include "kube/object_sink.h"

namespace tessera::agent {

struct NodePod {
  alloc::PodSpec spec;
  // The resource version at which the agent first saw the pod on this node. kubelet admits pods in
  // the order of this number, because no component writes to a pod between its bind and its
  // admission.
  std::uint64_t bound_at = 0;
  // The resource version in which the agent first saw the pod's current record annotations.
  std::uint64_t recorded_at = 0;
  bool from_watch = true;  // false: fetched by the agent, and the watch has not delivered it yet

  [[nodiscard]] PodName name() const { return {.namespace_name = spec.namespace_name, .name = spec.name}; }
  // "ml/train-7"
  [[nodiscard]] std::string text() const { return spec.namespace_name + "/" + spec.name; }
  // Returns whether a container of the pod runs or has run, which means that kubelet has admitted
  // the pod. Also true while all containers wait for a restart after a crash.
  [[nodiscard]] bool started() const;
};

// Receives changes of NodePods, on the event loop's thread.
class PodListener {
 public:
  virtual ~PodListener() = default;

  // The pod is new or has a newer version.
  virtual void pod_changed(const NodePod& /*pod*/) {}
  // The containers of the pod have stopped, or the pod was deleted.
  virtual void pod_removed(const std::string& /*pod_uid*/) {}
  // A list of all pods of the node is complete.
  virtual void pods_synced() {}
};

class Allocations;

class NodePods final : public kube::ObjectSink {
 public:
  // `other_resources` are the served resources that are not GPUs. `names` must outlive this object.
  explicit NodePods(const alloc::ResourceNames& names, std::vector<std::string> other_resources = {});

  // Listeners are called in the order of registration.
  void add_listener(PodListener& listener) { listeners_.push_back(&listener); }
  void remove_listener(PodListener& listener) { std::erase(listeners_, &listener); }

  // Adds a served resource that is not a GPU. Its amounts are decoded in pods that arrive from now
  // on. Pods that arrived earlier cannot hold it, because kubelet admits no pod that requests an
  // unregistered resource.
  void add_resource(const std::string& resource);

  // Registers the allocations of one kind of device. admission_begun() searches all registered
  // allocations.
  void add_allocations(const Allocations& allocations) { allocations_.push_back(&allocations); }
  void remove_allocations(const Allocations& allocations) { std::erase(allocations_, &allocations); }
  // Returns whether kubelet has begun to admit the pod: one of its containers has a device of any
  // kind.
  [[nodiscard]] bool admission_begun(const std::string& pod_uid) const;

  // Called by the Reflector.
  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;
  void unreadable(const kube::ObjectMeta& meta, const Error& error) override;
  void synced() override;

  // Adds or updates a pod as it was at `version`. Does nothing if the known version is newer.
  // `from_watch` is false for a pod that the agent fetched. A fetched pod is ignored if it is not
  // known and its version is older than the newest watch event. The watch delivers in order, so it
  // has already delivered such a pod and its end.
  void put(const alloc::PodSpec& pod, std::uint64_t version, bool from_watch);
  // Calls put() with the pod that decode() decoded last.
  void put_decoded(std::uint64_t version, bool from_watch) { put(decoded_, version, from_watch); }
  void remove(const std::string& uid);

  // Returns the amount of a resource that a container requests.
  [[nodiscard]] std::int64_t requested(const alloc::ContainerSpec& container,
                                       std::string_view resource) const;

  // Return the pod. Return null if it is not on this node, requests no served device or has ended.
  [[nodiscard]] const NodePod* find(const std::string& uid) const;
  [[nodiscard]] const NodePod* find(const PodName& name) const;
  [[nodiscard]] std::vector<const NodePod*> in_bind_order() const;
  // Returns the name ("ml/train-7") of a pod of this node, even if it requests no served device.
  // Returns "" if there is no such pod or it has ended.
  [[nodiscard]] std::string name_of_any(const std::string& uid) const;
  [[nodiscard]] bool is_synced() const { return synced_; }
  [[nodiscard]] std::size_t size() const { return pods_.size(); }

 private:
  [[nodiscard]] static bool requests_devices(const alloc::PodSpec& pod);
  template <class Call>
  void notify(Call call) const;

  const alloc::ResourceNames* names_;
  std::vector<std::string> other_resources_;
  std::vector<PodListener*> listeners_;
  std::vector<const Allocations*> allocations_;
  alloc::PodSpec decoded_;
  std::map<std::string, NodePod, std::less<>> pods_;  // by UID
  std::map<std::string, std::uint64_t, std::less<>> versions_;
  // By UID, the names of pods that request no served device.
  std::map<std::string, std::string, std::less<>> other_pods_;
  std::uint64_t newest_ = 0;  // newest version that the watch has delivered since the last list
  bool synced_ = false;
};

}  // namespace tessera::agent
