// alloc/ledger.h
//
// Who holds what on every GPU of the cluster.
//
// The ledger is a pure function of (nodes, bound pods, holds): any order of calls that ends with the same set
// ends in the same books, which ledger_property_test holds. It does no I/O and knows no time. One thread owns
// it; nothing here locks. Decisions are made by Placer (placer.h) on what stands here.
//
//   Ledger ledger({.unit = Unit::gib()});
//   ledger.upsert_node(node);                             // from watches, in any order
//   ledger.upsert_pod(pod);
//   Placer placer(ledger, {});
//   const Choice choice = TRY(placer.choose(request, node_id));
//   Hold hold = TRY(ledger.reserve(pod_key, request, choice));
//   TRY(bind(...));                                       // on failure the hold gives everything back
//   hold.commit();
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "alloc/choice.h"
#include "alloc/gpu_name.h"
#include "alloc/gpu_uuid.h"
#include "alloc/inventory.h"
#include "alloc/node.h"
#include "alloc/node_state.h"
#include "alloc/pod.h"
#include "alloc/problem.h"
#include "alloc/record.h"
#include "alloc/request.h"
#include "alloc/units.h"
#include "base/result.h"

namespace tessera::alloc {

class Ledger;

struct PodKey {
  std::string namespace_name;
  std::string name;
  std::string uid;

  // "ml/train-7".
  [[nodiscard]] std::string text() const { return namespace_name + "/" + name; }
  friend bool operator==(const PodKey&, const PodKey&) = default;
};

// GPUs taken out of the free pool for a pod that is being bound. Gives them back when it is destroyed, unless
// commit() was called or the watch has shown the pod bound in the meantime: then what the pod's own record
// says has taken its place. A hold must not outlive its ledger.
class [[nodiscard]] Hold {
 public:
  Hold() = default;
  Hold(Hold&& other) noexcept;
  Hold& operator=(Hold&& other) noexcept;
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() { release(); }

  // The pod is bound: it keeps the GPUs until the watch shows it, and from then on by its record.
  void commit();
  // Gives them back now.
  void release();

 private:
  friend class Ledger;
  Hold(Ledger* ledger, std::uint32_t pod, std::uint32_t generation)
      : ledger_(ledger), pod_(pod), generation_(generation) {}

  Ledger* ledger_ = nullptr;
  std::uint32_t pod_ = 0;
  std::uint32_t generation_ = 0;
};

// What the ledger knows of a GPU beyond the columns of NodeView.
struct LedgerGpu {
  GpuUuid uuid;
  std::uint32_t index = 0;
  ModelId model = 0;

  friend bool operator==(const LedgerGpu&, const LedgerGpu&) = default;
};

// A GPU share that a pod holds, and where on its node the GPU is.
struct HeldShare {
  static constexpr std::int8_t kNotOnNode = -1;

  GpuShare share;
  std::int8_t slot = kNotOnNode;
};

// What one pod holds of a node.
struct PodHolding {
  PodKey pod;
  NodeId node{};
  bool bound = false;       // false: a hold, or committed and not seen yet
  bool decided = false;     // by a record that was believed
  std::uint64_t units = 0;  // asked for, as Kubernetes counts
  std::uint64_t whole = 0;
  NodeUse node_use;
  std::vector<HeldShare> shares;  // empty when undecided and there was more than one GPU to choose from
};

class Ledger {
 public:
  struct Options {
    Unit unit;  // of the cluster; nodes with another one are fenced
    ResourceNames names;
  };

  explicit Ledger(Options options = {});
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Facts, in any order and as often as one likes. A node whose inventory cannot be read is fenced and
  // stands in problems(); its pods are kept.
  void upsert_node(const NodeSpec& node);
  void remove_node(std::string_view name);
  // Pods that are not bound, and those whose containers have stopped, hold nothing. A pod on an unknown node
  // is kept until that node appears.
  void upsert_pod(const PodSpec& pod);
  void remove_pod(std::string_view uid);

  // Takes the GPUs of `choice` out of the free pool for `pod`.
  //
  // Fails with kConflict when somebody took them since the choice was made, when the node changed, or when
  // the pod already holds GPUs: choose again.
  [[nodiscard]] Result<Hold> reserve(const PodKey& pod, const Request& request, const Choice& choice);

  // Names and ids. A node has an id as long as it exists or pods speak of it.
  [[nodiscard]] std::optional<NodeId> find_node(std::string_view name) const;
  [[nodiscard]] const std::string& node_name(NodeId id) const { return nodes_[raw(id)].name; }
  // All nodes that exist, by name.
  [[nodiscard]] std::vector<NodeId> nodes_by_name() const;
  // The same without the names' order, one per node that exists; valid until a node comes or goes.
  [[nodiscard]] std::span<const NodeId> nodes() const { return present_; }

  [[nodiscard]] const NodeStates& states() const { return states_; }
  // Another number whenever a node comes, goes or becomes another machine; not when it is ill or busy.
  [[nodiscard]] std::uint64_t inventory_version() const { return inventory_version_; }
  // The node's place in an order that never changes and means nothing.
  [[nodiscard]] std::uint32_t node_order(NodeId id) const { return nodes_[raw(id)].order; }
  [[nodiscard]] NodeView view(NodeId id) const { return states_.view(id); }
  [[nodiscard]] std::span<const LedgerGpu> gpus(NodeId id) const { return nodes_[raw(id)].gpus; }
  // Why a GPU must not be used; empty when it is well.
  [[nodiscard]] std::string_view unhealthy(NodeId id, unsigned slot) const;
  [[nodiscard]] std::vector<GpuName> gpu_names(NodeId id) const;
  [[nodiscard]] const std::string& machine(NodeId id) const { return *nodes_[raw(id)].machine; }
  // As the cloud calls it; where the agent does not say what it is, machine() is the same.
  [[nodiscard]] const std::string& instance_type(NodeId id) const { return *nodes_[raw(id)].instance_type; }
  // Why the node is fenced, in a person's words; empty when it is not.
  [[nodiscard]] std::string_view fence_text(NodeId id) const;
  [[nodiscard]] const std::string& model_name(ModelId id) const { return models_[id]; }
  [[nodiscard]] std::size_t model_count() const { return models_.size(); }

  // Who is there, by namespace and name. Pods without GPUs are not listed, and known by their UID only.
  [[nodiscard]] std::vector<PodHolding> holdings(NodeId id) const;
  [[nodiscard]] std::optional<PodHolding> holding(std::string_view uid) const;
  [[nodiscard]] std::size_t pod_count() const { return by_uid_.size(); }

  // What is wrong now, at most `most` of each kind, in an order that depends on nothing but the facts.
  [[nodiscard]] std::vector<Problem> problems(std::size_t most = 100) const;
  // How many pods or nodes have such a problem now, and how often one came up.
  [[nodiscard]] std::size_t problem_count(ProblemKind kind) const;
  [[nodiscard]] std::uint64_t problem_total(ProblemKind kind) const;

  [[nodiscard]] const Options& options() const { return options_; }

 private:
  friend class Hold;
  using PodId = std::uint32_t;
  enum class PodState : std::uint8_t { kUnused, kReserved, kAssumed, kBound };

  struct Pod {
    PodKey key;
    NodeId node{};
    std::uint32_t place = 0;  // in its node's list
    std::uint32_t generation = 0;
    PodState state = PodState::kUnused;
    bool from_index = false;  // the shares name GPUs by index: an old tool's record
    bool decided = false;     // the shares were believed
    bool alone = false;       // undecided on a node with one GPU: holds all it asked for there
    std::uint32_t units = 0;
    std::uint32_t core_percent = 0;
    std::uint32_t whole = 0;
    NodeUse node_use;
    std::vector<HeldShare> shares;
    std::optional<ProblemKind> record_problem;  // what is wrong with the record on any node
    std::optional<ProblemKind> problem;         // what is wrong on this node
  };

  static inline const std::string kNoKind;

  struct Node {
    std::string name;
    const std::string* machine = &kNoKind;  // these two are of kinds_
    const std::string* instance_type = &kNoKind;
    std::vector<LedgerGpu> gpus;
    std::vector<PodId> pods;
    std::uint32_t present_at = 0;  // in present_
    std::uint32_t order = 0;       // stable_order(name)
    bool present = false;
    bool overcommitted = false;
    std::optional<ProblemKind> problem;  // of the node itself
  };

  // Nodes are found by a name that stands in them alone.
  struct NameHash {
    using is_transparent = void;
    const Ledger* ledger;
    std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
    std::size_t operator()(NodeId id) const { return (*this)(ledger->node_name(id)); }
  };
  struct SameName {
    using is_transparent = void;
    const Ledger* ledger;
    bool operator()(NodeId a, NodeId b) const { return a == b; }
    bool operator()(std::string_view name, NodeId id) const { return name == ledger->node_name(id); }
    bool operator()(NodeId id, std::string_view name) const { return name == ledger->node_name(id); }
  };

  struct TopologyUse {
    std::shared_ptr<const topology::SetTables> tables;
    std::uint32_t id = 0;
    std::uint32_t users = 0;
  };

  // Nodes.
  NodeId node_id(std::string_view name);
  void forget_if_unused(NodeId id);
  void set_present(NodeId id, bool present);
  void apply_inventory(NodeId id, const NodeSpec& spec, const Inventory& inventory);
  void fence(NodeId id, Fence why, std::string text);
  void clear_gpus(NodeId id);
  void set_gpus(NodeId id, std::vector<LedgerGpu> gpus, NodeStates::Layout layout);
  void set_illness(NodeId id, const Inventory& inventory);
  void set_node_problem(Node& node, std::optional<ProblemKind> problem);
  [[nodiscard]] bool lost_its_inventory(NodeId id) const;
  void check_inventory(NodeId id);
  void open_or_fence(NodeId id);
  void check_capacity(NodeId id, const NodeSpec& spec);
  void check_overcommitment(NodeId id);
  ModelId model_id(std::string_view name);
  const std::string* kind(const std::string& name);
  void use_topology(const topology::Topology& topology, NodeStates::Layout& layout);
  void drop_topology(const topology::SetTables* tables);

  // Pods.
  PodId add_pod(const PodKey& key);
  void read_record(PodId id, const PodSpec& spec);
  void record_fault(PodId id, ProblemKind kind, std::string text);
  void attach(PodId id, NodeId node);
  void detach(PodId id);
  void drop_pod(PodId id);
  // Finds the pod's GPUs on its node and puts its load there, or takes it off.
  void settle(Pod& pod);
  void unsettle(Pod& pod);
  void resolve(Pod& pod) const;
  [[nodiscard]] PodHolding holding_of(const Pod& pod) const;
  [[nodiscard]] std::string problem_text(PodId id) const;
  [[nodiscard]] std::string over_committed_list(NodeId id) const;
  void commit(PodId id, std::uint32_t generation);
  void release(PodId id, std::uint32_t generation);

  Options options_;
  NodeStates states_;

  std::deque<Node> nodes_;  // by NodeId
  // What is wrong with nodes and with GPUs (by slot) in words; few have any.
  std::unordered_map<std::uint32_t, std::string> fence_texts_;
  std::unordered_map<std::uint32_t, std::vector<std::string>> illness_;
  std::unordered_map<std::uint32_t, std::string> second_plugins_;
  std::unordered_map<std::uint32_t, std::string> capacity_texts_;
  boost::unordered_flat_set<NodeId, NameHash, SameName> by_name_{0, NameHash{this}, SameName{this}};
  std::vector<NodeId> present_;
  std::set<std::string> kinds_;  // of machines; few, so they stay
  std::vector<std::string> models_;
  std::unordered_map<std::string, ModelId> model_ids_;
  std::unordered_map<topology::Topology, TopologyUse, topology::TopologyHash> topologies_;
  std::uint32_t next_topology_ = 0;
  std::uint64_t inventory_version_ = 1;

  std::deque<Pod> pods_;
  std::vector<PodId> unused_pods_;
  std::unordered_map<std::string_view, PodId> by_uid_;

  // What is wrong with a record in words; few pods have one.
  std::unordered_map<PodId, std::string> record_faults_;
  std::array<std::size_t, kProblemKinds> problem_counts_{};
  std::array<std::uint64_t, kProblemKinds> problem_totals_{};
};

}  // namespace tessera::alloc
