// agent/devices/node_pods.h
//
// The pods of this node that request devices of ours, as the API server reports them. kubelet's
// device-plugin calls name no pod; the pod that a call is for is always among these, and usually
// the next in bind order.
//
// A sink of a Reflector whose selector is spec.nodeName. On the event loop's thread.
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
  // The resource version in which it was first seen here. No component writes to a pod between its
  // bind and its admission, so this is the order in which kubelet admits.
  std::uint64_t bound_at = 0;
  bool from_watch = true;  // false: fetched by the agent, and the watch has not delivered it yet

  [[nodiscard]] PodName name() const { return {.namespace_name = spec.namespace_name, .name = spec.name}; }
  // "ml/train-7"
  [[nodiscard]] std::string text() const { return spec.namespace_name + "/" + spec.name; }
  // Whether one of its containers runs or has run, so that kubelet admitted it earlier. True also
  // while all of them wait after a crash.
  [[nodiscard]] bool started() const;
};

// Hears of changes of NodePods. All calls come on the event loop's thread.
class PodListener {
 public:
  virtual ~PodListener() = default;

  virtual void pod_changed(const NodePod& /*pod*/) {}          // new, or a newer version
  virtual void pod_removed(const std::string& /*pod_uid*/) {}  // its containers have stopped, or it is gone
  virtual void pods_synced() {}                                // a list is complete
};

class Allocations;

class NodePods final : public kube::ObjectSink {
 public:
  // `names` must outlive it. `other_resources`: served resources that are not GPUs.
  explicit NodePods(const alloc::ResourceNames& names, std::vector<std::string> other_resources = {});

  // Listeners are called in the order in which they were added.
  void add_listener(PodListener& listener) { listeners_.push_back(&listener); }
  void remove_listener(PodListener& listener) { std::erase(listeners_, &listener); }

  // Adds a served resource that is not a GPU. Pods that arrive from now on are read with it.
  // kubelet admits no pod for a resource that it does not know, so earlier pods cannot have it.
  void add_resource(const std::string& resource);

  // The allocations of one kind of device; see admission_begun().
  void add_allocations(const Allocations& allocations) { allocations_.push_back(&allocations); }
  void remove_allocations(const Allocations& allocations) { std::erase(allocations_, &allocations); }
  // Whether kubelet has begun to admit the pod: a container of it has a device of any kind.
  [[nodiscard]] bool admission_begun(const std::string& pod_uid) const;

  // Called by the Reflector.
  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;
  void unreadable(const kube::ObjectMeta& meta, const Error& error) override;
  void synced() override;

  // Adds or updates a pod as it was at `version`. A version older than the known one changes
  // nothing. An unknown pod that was fetched and is older than the newest watch event has ended
  // since and is ignored: the watch delivers in order.
  void put(const alloc::PodSpec& pod, std::uint64_t version, bool from_watch);
  // put() of the pod that decode() read last.
  void put_decoded(std::uint64_t version, bool from_watch) { put(decoded_, version, from_watch); }
  void remove(const std::string& uid);

  // The amount of a resource that a container requests.
  [[nodiscard]] std::int64_t requested(const alloc::ContainerSpec& container,
                                       std::string_view resource) const;

  // Null when the pod is not on this node, requests nothing of ours, or has ended.
  [[nodiscard]] const NodePod* find(const std::string& uid) const;
  [[nodiscard]] const NodePod* find(const PodName& name) const;
  [[nodiscard]] std::vector<const NodePod*> in_bind_order() const;
  // The name ("ml/train-7") of any pod of this node that has not ended, including pods that request
  // nothing of ours; empty when there is none.
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
  std::map<std::string, std::string, std::less<>> other_pods_;  // names by UID: pods that request nothing
  std::uint64_t newest_ = 0;  // the newest version that the watch has delivered since the last list
  bool synced_ = false;
};

}  // namespace tessera::agent
