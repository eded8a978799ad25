// extender/watch_sinks.h
//
// Sinks that decode the objects of a watch and update the ClusterState. Used only on the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "alloc/pod.h"
#include "extender/cluster_state.h"
#include "kube/object_sink.h"
#include "objects/disruption_budget.h"
#include "objects/label_hashes.h"

namespace tessera::extender {

// The base of all sinks. An object that cannot be decoded is logged and changes nothing. Otherwise
// a malformed label would free the GPUs of a running pod, and they would be allocated twice.
class StateSink : public kube::ObjectSink {
 public:
  // `state` must outlive this object. Calls `on_synced` after each complete list.
  StateSink(ClusterState& state, std::function<void()> on_synced);

  void unreadable(const kube::ObjectMeta& meta, const Error& error) override;
  void synced() final { on_synced_(); }

 protected:
  ClusterState& state_;

 private:
  std::function<void()> on_synced_;
};

class PodSink final : public StateSink {
 public:
  using StateSink::StateSink;

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;
  // The pod keeps the GPUs that it is known to hold. If they are not known, its node is fenced.
  void unreadable(const kube::ObjectMeta& meta, const Error& error) override;

 private:
  alloc::PodSpec pod_;
  objects::LabelHashes labels_;
};

class BudgetSink final : public StateSink {
 public:
  using StateSink::StateSink;

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;

 private:
  objects::DisruptionBudget budget_;
};

// ConfigMaps unhealthy-gpu-NODE, in which the original lists GPUs that must not be used.
class UnhealthySink final : public StateSink {
 public:
  using StateSink::StateSink;

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;

 private:
  std::string gpus_;
};

class NodeSink final : public StateSink {
 public:
  using StateSink::StateSink;

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
  void keep(const kube::ObjectMeta& meta) override;
  void forget(const kube::ObjectMeta& meta) override;

 private:
  alloc::NodeSpec node_;
};

}  // namespace tessera::extender
