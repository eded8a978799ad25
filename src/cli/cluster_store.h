// cli/cluster_store.h
//
// Where objects of the API are put while a cluster is read or watched. One thread.
#pragma once

#include <string>
#include <unordered_map>

#include "cli/cluster.h"
#include "kube/object_sink.h"

namespace tessera::cli {

class ClusterStore {
 public:
  explicit ClusterStore(ClusterQuery query);

  [[nodiscard]] kube::ObjectSink& nodes() { return nodes_; }
  [[nodiscard]] kube::ObjectSink& pods() { return pods_; }

  // What is there now, sorted. take() leaves nothing behind.
  [[nodiscard]] Cluster snapshot() const;
  [[nodiscard]] Cluster take();
  void clear_nodes() { nodes_.kept.clear(); }
  void clear_pods() { pods_.kept.clear(); }

  // Another number whenever something has changed.
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

    ByUid<NodeFacts> kept;
    ByUid<std::string> faults;

   private:
    ClusterStore& store_;
    NodeFacts next_;
  };

  class PodSink final : public kube::ObjectSink {
   public:
    explicit PodSink(ClusterStore& store) : store_(store) {}
    Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override;
    void keep(const kube::ObjectMeta& meta) override;
    void forget(const kube::ObjectMeta& meta) override;
    void unreadable(const kube::ObjectMeta& meta, const Error& error) override;

    ByUid<alloc::PodSpec> kept;
    ByUid<std::string> faults;

   private:
    ClusterStore& store_;
    alloc::PodSpec next_;
  };

  [[nodiscard]] std::vector<std::string> warnings() const;

  ClusterQuery query_;
  alloc::ResourceNames names_;
  std::uint64_t version_ = 0;
  NodeSink nodes_;
  PodSink pods_;
};

}  // namespace tessera::cli
