// cli/cluster/cluster_store.h
//
// Collects the Nodes and Pods of a cluster while it is read or watched. Not thread-safe.
#pragma once

#include <string>
#include <unordered_map>

#include "cli/cluster/cluster.h"
#include "kube/object_sink.h"

namespace tessera::cli {

class ClusterStore {
 public:
  explicit ClusterStore(ClusterQuery query, ClusterSettings settings = {});

  [[nodiscard]] kube::ObjectSink& nodes() { return nodes_; }
  [[nodiscard]] kube::ObjectSink& pods() { return pods_; }

  // Return the current objects, sorted. take() also empties the store.
  [[nodiscard]] Cluster snapshot() const;
  [[nodiscard]] Cluster take();
  void clear_nodes() { nodes_.kept.clear(); }
  void clear_pods() { pods_.clear(); }

  // Increases with every change.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] const ClusterQuery& query() const { return query_; }

 private:
  template <class Object>
  using ByUid = std::unordered_map<std::string, Object>;

  class NodeSink final : public kube::ObjectSink {
   public:
    explicit NodeSink(ClusterStore& store) : store_(store) {}
    Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
    void keep(const kube::ObjectMeta& meta) override;
    void forget(const kube::ObjectMeta& meta) override;
    void unreadable(const kube::ObjectMeta& meta, const Error& error) override;

    ByUid<objects::NodeFacts> kept;
    ByUid<std::string> faults;

   private:
    ClusterStore& store_;
    objects::NodeFacts next_;
  };

  class PodSink final : public kube::ObjectSink {
   public:
    explicit PodSink(ClusterStore& store) : store_(store) {}
    Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
    void keep(const kube::ObjectMeta& meta) override;
    void forget(const kube::ObjectMeta& meta) override;
    void unreadable(const kube::ObjectMeta& meta, const Error& error) override;
    void clear();

    ByUid<alloc::PodSpec> kept;
    ByUid<objects::PodDetails> details;
    ByUid<PlacerPod> placers;
    ByUid<AgentPod> agents;
    ByUid<std::string> faults;

   private:
    void keep_details(const std::string& uid, bool wanted);

    ClusterStore& store_;
    alloc::PodSpec next_;
    objects::PodDetails next_details_;
  };

  [[nodiscard]] std::vector<std::string> warnings() const;
  // Adds Tessera's own pods, but only those of one namespace.
  void add_own_pods(Cluster& cluster) const;
  // Adds everything except nodes and pods: settings, names, warnings. Sorts the result.
  void complete(Cluster& cluster) const;

  ClusterQuery query_;
  ClusterSettings settings_;
  alloc::ResourceNames names_;
  std::uint64_t version_ = 0;
  NodeSink nodes_;
  PodSink pods_;
};

// Returns a query that keeps only Cluster::placers.
ClusterQuery placers_only();
// Label selector for the pods in Cluster::placers. The chart sets these labels.
inline constexpr std::string_view kPlacerLabels =
    "app.kubernetes.io/name=tessera,app.kubernetes.io/component in (scheduler,extender)";

// Returns the settings in the user's options. Settings that the user did not give are those of one
// of Tessera's scheduler or extender pods (Cluster::placers), if possible a pod that is ready.
ClusterSettings settings_of(const ClusterOptions& options, const Cluster& cluster);

}  // namespace tessera::cli
