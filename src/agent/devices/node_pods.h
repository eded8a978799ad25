// agent/devices/node_pods.h
//
// The pods of this node that ask for devices of ours, as the API server tells them. kubelet's questions name
// no pod; the one that asks is always among these, and mostly the next in the order in which they were bound.
//
// A sink of a Reflector whose selector is spec.nodeName; on the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
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
  // The version in which it was first seen here. Nobody writes to a pod between its bind and its admission,
  // so this is the order in which kubelet admits.
  std::uint64_t bound_at = 0;
  bool from_watch = true;  // false: fetched by us, and the watch has not brought it yet

  [[nodiscard]] PodName name() const { return {.namespace_name = spec.namespace_name, .name = spec.name}; }
  // "ml/train-7"
  [[nodiscard]] std::string text() const { return spec.namespace_name + "/" + spec.name; }
  // Whether one of its containers has run, or runs: it was admitted long ago. Also while all of them wait
  // because they crash.
  [[nodiscard]] bool started() const;
};

class NodePods final : public kube::ObjectSink {
 public:
  struct Events {
    std::function<void(const NodePod&)> changed{};        // new, or another version
    std::function<void(const std::string& uid)> ended{};  // its containers have stopped, or it is gone
    std::function<void()> synced{};                       // all have been brought
  };

  // `names` must live longer. `others`: resources that are served beside those of GPUs.
  NodePods(const alloc::ResourceNames& names, Events events, std::vector<std::string> others = {});

  // What a Reflector brings.
  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;
  void unreadable(const kube::ObjectMeta& meta, const Error& error) override;
  void synced() override;

  // A pod as it was at `version`. An older version than the one known changes nothing. One that we fetched
  // and that is older than what the watch has told of the node has ended since, unless it is known: the watch
  // tells in order.
  void put(const alloc::PodSpec& pod, std::uint64_t version, bool from_watch);
  // What decode() read last.
  void put_decoded(std::uint64_t version, bool from_watch) { put(decoded_, version, from_watch); }
  void remove(const std::string& uid);

  // How many of a resource a container asks for.
  [[nodiscard]] std::int64_t asked(const alloc::ContainerSpec& container, std::string_view resource) const;

  // Null when it is not here, asks for nothing of ours, or has ended.
  [[nodiscard]] const NodePod* find(const std::string& uid) const;
  [[nodiscard]] const NodePod* find(const PodName& name) const;
  // In the order in which they were bound.
  [[nodiscard]] std::vector<const NodePod*> in_bind_order() const;
  // The name of any pod of this node that has not ended, also of one that asks for nothing of ours; empty
  // when there is none.
  [[nodiscard]] std::string name_of_any(const std::string& uid) const;
  [[nodiscard]] bool is_synced() const { return synced_; }
  [[nodiscard]] std::size_t size() const { return pods_.size(); }

 private:
  [[nodiscard]] bool asks(const alloc::PodSpec& pod) const;

  const alloc::ResourceNames* names_;
  const std::vector<std::string> others_served_;
  Events events_;
  alloc::PodSpec decoded_;
  std::map<std::string, NodePod, std::less<>> pods_;  // by UID
  std::map<std::string, std::uint64_t, std::less<>> versions_;
  std::map<std::string, std::string, std::less<>> others_;  // names by UID of pods that ask for nothing
  std::uint64_t told_ = 0;  // the newest version that the watch has brought since the last list
  bool synced_ = false;
};

}  // namespace tessera::agent
