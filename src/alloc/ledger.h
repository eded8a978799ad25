// alloc/ledger.h
//
// The ledger of the cluster: which pod holds what on every GPU.
//
// The state of the ledger depends only on the current nodes, bound pods and holds, not on the order
// of the calls that added them (tested by ledger_property_test). The ledger does no I/O, has no
// clock and no locks; one thread owns it. It makes no decisions: Placer (placer.h) does.
//
// Records of bound pods are an exception. A running container keeps its GPUs, but any client that
// may edit the pod can change the record. So the ledger remembers earlier records:
//   - A record that is removed or made invalid after the bind frees nothing. The pod keeps the
//     shares of its last valid record until it ends.
//   - Before a GPU container of the pod has started, a different valid record replaces the shares,
//     because the agent corrects a record until the start.
//   - After the start, the ledger cannot know whether the agent or another client replaced the
//     record. For each GPU, it counts the larger amount of the first and the new record, until
//     the two agree again.
//   - If a pod has started and the ledger never saw a valid record of it, the node is fenced
//     (Fence::kUnrecordedPod) until the agent has repaired the record or the pod has ended.
// So if the ledger is rebuilt from a list, it counts at least as much for started pods as before,
// or it fences the node. The exception is a started pod whose record names the wrong GPUs at that
// time: the rebuilt ledger uses the record until the agent has repaired it.
//
//   Ledger ledger({.unit = Unit::gib()});
//   ledger.upsert_node(node);                             // from watches, in any order
//   ledger.upsert_pod(pod);
//   Placer placer(ledger, {});
//   const Choice choice = TRY(placer.choose(request, node_id));
//   Hold hold = TRY(ledger.reserve(pod_key, request, choice));
//   TRY(bind(...));                                       // on failure the hold is released
//   hold.commit();
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <deque>
#include <optional>
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

// A reservation of GPUs for a pod that is being bound. The destructor releases the hold unless
// commit() was called. Once the watch has shown the pod as bound, the pod's record replaces the
// hold, and releasing the hold has no effect. A hold must not outlive its ledger.
class [[nodiscard]] Hold {
 public:
  Hold() = default;
  Hold(Hold&& other) noexcept;
  Hold& operator=(Hold&& other) noexcept;
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() { release(); }

  // Reports that the pod was bound. The pod keeps the GPUs until the watch shows its record.
  void commit();
  // Makes the GPUs free again.
  void release();

 private:
  friend class Ledger;
  Hold(Ledger* ledger, std::uint32_t pod, std::uint32_t generation)
      : ledger_(ledger), pod_(pod), generation_(generation) {}

  Ledger* ledger_ = nullptr;
  std::uint32_t pod_ = 0;
  std::uint32_t generation_ = 0;
};

// The identity of a GPU. Its size, load and health are in NodeView.
struct LedgerGpu {
  GpuUuid uuid;
  std::uint32_t index = 0;
  ModelId model = 0;

  friend bool operator==(const LedgerGpu&, const LedgerGpu&) = default;
};

// A GPU share that a pod holds, and the slot of the GPU on the pod's node.
struct HeldShare {
  static constexpr std::int8_t kNotOnNode = -1;

  GpuShare share;
  std::int8_t slot = kNotOnNode;
};

// The part of a node that one pod holds.
struct PodHolding {
  PodKey pod;
  NodeId node{};
  bool bound = false;       // true: the watch has shown the bound pod; false: only a hold or a GET
  bool decided = false;     // true: `shares` are from a valid record, now or earlier, or a hold
  std::uint64_t units = 0;  // requested in total, as Kubernetes counts
  std::uint64_t whole = 0;  // requested whole GPUs
  NodeUse node_use;
  std::vector<HeldShare> shares;  // empty if undecided on a node with several GPUs
};

// How the caller learned about a pod. Only the watch shows all changes in order.
enum class PodSource : std::uint8_t { kWatch, kGet };

class Ledger {
 public:
  struct Options {
    Unit unit;  // unit of the cluster; a node with a different unit is fenced
    ResourceNames names;
  };

  explicit Ledger(Options options = {});
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Add, replace or remove a node or pod, as the watches report it. Nodes and pods may arrive in
  // any order and repeatedly. A node whose inventory cannot be read is fenced: it takes no GPU
  // pods, but its pods are kept. problems() reports such nodes.
  //
  // The tables for the topology of a machine with more than kQuickGpus GPUs take milliseconds. With
  // kRefuse, upsert_node() changes nothing and returns false if it would have to build such tables.
  enum class NewTables : std::uint8_t { kBuild, kRefuse };
  static constexpr unsigned kQuickGpus = 8;
  bool upsert_node(const NodeSpec& node, NewTables tables = NewTables::kBuild);
  void remove_node(std::string_view name);
  // Fences a node whose agent is down, and reopens it when the agent is no longer down. Does
  // nothing if the node does not exist. upsert_node() keeps this state; remove_node() resets it.
  void set_agent_down(std::string_view node, bool down);
  // A pod that is not bound, or that has ended (occupies() in pod.h), holds nothing. Upserting an
  // unbound pod does not change its hold. A pod on an unknown node is kept until that node appears.
  // A pod from a GET does not replace what the watch has shown, because it may be older.
  void upsert_pod(const PodSpec& pod, PodSource source = PodSource::kWatch);
  // Adds a bound pod that cannot be read; `why` says why not. If the pod is known, it keeps what it
  // holds. Otherwise its node is fenced until the pod can be read or is removed.
  void upsert_unreadable_pod(const PodKey& pod, std::string_view node, std::string why);
  void remove_pod(std::string_view uid);

  // Reserves the GPUs of `choice` for `pod`. Returns kConflict if the GPUs were taken or the node
  // changed since the choice was made, or if the pod already holds GPUs. The caller must then
  // choose again.
  [[nodiscard]] Result<Hold> reserve(const PodKey& pod, const Request& request, const Choice& choice);

  // Returns the id of a node, or nullopt if it has none. A node has an id while it exists or a pod
  // is bound to it.
  [[nodiscard]] std::optional<NodeId> find_node(std::string_view name) const;
  [[nodiscard]] const std::string& node_name(NodeId id) const { return nodes_[raw(id)].name; }
  // Returns all nodes that exist, sorted by name.
  [[nodiscard]] std::vector<NodeId> nodes_by_name() const;
  // Returns the nodes that exist, in no particular order. Valid until a node is added or removed.
  [[nodiscard]] std::span<const NodeId> nodes() const { return present_; }

  [[nodiscard]] const NodeStates& states() const { return states_; }
  // Changes when a node is added, removed, fenced or reopened, or when its GPUs or its CPU or
  // memory capacity change. Does not change with health or load.
  [[nodiscard]] std::uint64_t inventory_version() const { return inventory_version_; }
  // An arbitrary order of nodes that never changes (stable_order).
  [[nodiscard]] std::uint32_t node_order(NodeId id) const { return nodes_[raw(id)].order; }
  [[nodiscard]] NodeView view(NodeId id) const { return states_.view(id); }
  [[nodiscard]] std::span<const LedgerGpu> gpus(NodeId id) const { return nodes_[raw(id)].gpus; }
  // Returns why a GPU must not be used; empty if it is healthy.
  [[nodiscard]] std::string_view unhealthy(NodeId id, unsigned slot) const;
  [[nodiscard]] std::vector<GpuName> gpu_names(NodeId id) const;
  [[nodiscard]] const std::string& machine(NodeId id) const { return nodes_[raw(id)].machine; }
  // The cloud's instance type. Equal to machine() if the agent does not know the machine type.
  [[nodiscard]] const std::string& instance_type(NodeId id) const { return nodes_[raw(id)].instance_type; }
  // Returns why the node is fenced, as text; empty if it is not.
  [[nodiscard]] std::string_view fence_text(NodeId id) const;
  // The name of a model; "" if no GPU has it any more.
  [[nodiscard]] const std::string& model_name(ModelId id) const { return models_[id].name; }
  // One more than the largest id of a model. Ids of models that no GPU has any more are used again.
  [[nodiscard]] std::size_t model_count() const { return models_.size(); }
  // Returns for each ModelId whether the model matches one of `wanted` (model_matches). Empty if
  // `wanted` is empty.
  [[nodiscard]] std::vector<std::uint8_t> models_matching(std::span<const std::string> wanted) const;
  // How often upsert_node() built tables for more than kQuickGpus GPUs.
  [[nodiscard]] std::uint64_t large_tables_built() const { return large_tables_built_; }

  // Returns the pods that hold GPUs of a node, sorted by namespace and name.
  [[nodiscard]] std::vector<PodHolding> holdings(NodeId id) const;
  // Returns what one pod holds, or nullopt if the ledger does not know the pod. For a pod without
  // GPUs only the UID, the node, and the CPU and memory requests are set.
  [[nodiscard]] std::optional<PodHolding> holding(std::string_view uid) const;
  // Describes what a pod holds: "GPU 2 (GPU-5d3c...) 8GiB, GPU 3 (GPU-71aa...) whole".
  [[nodiscard]] std::string holding_text(const PodHolding& holding) const;
  [[nodiscard]] std::size_t pod_count() const { return by_uid_.size(); }

  // Returns the current problems, at most `most` of each kind, in an order that depends only on
  // their content.
  [[nodiscard]] std::vector<Problem> problems(std::size_t most = 100) const;
  // problem_count() returns how many pods or nodes have this problem now. problem_total() returns
  // how often the problem has appeared so far.
  [[nodiscard]] std::size_t problem_count(ProblemKind kind) const;
  [[nodiscard]] std::uint64_t problem_total(ProblemKind kind) const;

  [[nodiscard]] const Options& options() const { return options_; }

 private:
  friend class Hold;
  using PodId = std::uint32_t;
  enum class PodState : std::uint8_t {
    kUnused,    // a free entry of pods_
    kReserved,  // has a Hold
    kAssumed,   // its Hold was committed, or a GET showed the bind; the watch has not shown it yet
    kBound,     // the watch has shown the bind
  };

  struct Pod {
    PodKey key;
    NodeId node{};
    std::uint32_t position = 0;  // in Node::pods
    std::uint32_t generation = 0;
    PodState state = PodState::kUnused;
    bool started = false;      // has_started(), now or in an earlier update
    bool decided = false;      // the shares are valid
    bool on_only_gpu = false;  // undecided, but its node has one GPU: holds all it requests there
    bool unrecorded = false;   // has started, and it is not known which GPUs of its node it has
    std::uint32_t units = 0;
    std::uint32_t core_percent = 0;
    std::uint32_t whole = 0;
    NodeUse node_use;
    std::vector<HeldShare> shares;  // of its last valid record
    // The shares of the first record, if the record was replaced after the pod had started. The pod
    // then holds the larger of the two amounts on each GPU. Usually empty.
    std::vector<HeldShare> kept;
    std::optional<ProblemKind> record_problem;  // problem of the record itself, on any node
    std::optional<ProblemKind> problem;         // record_problem, or a problem with the node's GPUs
  };

  struct Model {
    std::string name;
    std::string words;
    std::uint32_t gpus = 0;  // how many GPUs have it; 0: a free entry of models_
  };

  struct Node {
    std::string name;
    std::string machine;
    std::string instance_type;
    std::vector<LedgerGpu> gpus;
    std::vector<PodId> pods;
    std::uint32_t present_at = 0;  // position in present_
    std::uint32_t order = 0;       // stable_order(name)
    std::uint32_t unrecorded = 0;  // number of pods with Pod::unrecorded
    bool present = false;
    bool overcommitted = false;
    bool draining = false;               // the agent has announced that it ends
    bool agent_down = false;             // see set_agent_down()
    std::optional<ProblemKind> problem;  // of the node itself
  };

  // Let by_name_ find a node by name without storing a second copy of the name.
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
  void set_unhealthy(NodeId id, const Inventory& inventory);
  void set_node_problem(Node& node, std::optional<ProblemKind> problem);
  [[nodiscard]] bool lost_its_inventory(NodeId id) const;
  // Returns a pod on the node that cannot be read, or nothing.
  [[nodiscard]] std::optional<PodId> unreadable_pod(NodeId id) const;
  [[nodiscard]] std::string unrecorded_text(const Node& node) const;
  void check_fence(NodeId id);
  void open_or_fence(NodeId id);
  void check_capacity(NodeId id, const NodeSpec& spec);
  void check_overcommitment(NodeId id);
  // use_model() counts one more GPU with this model; drop_models() stops counting these GPUs.
  ModelId use_model(const std::string& name);
  void drop_models(std::span<const LedgerGpu> gpus);
  void use_topology(const topology::Topology& topology, NodeStates::Layout& layout);
  void drop_topology(const topology::SetTables* tables);

  // Pods.
  PodId add_pod(const PodKey& key);
  void read_record(PodId id, const PodSpec& spec);
  std::vector<HeldShare> recorded_shares(PodId id, const PodSpec& spec, const GpuRequest& request);
  void record_fault(PodId id, ProblemKind kind, std::string text);
  // attach() adds the pod to a node and checks the node. detach() removes it; the caller then calls
  // attach() for the same node, or left().
  void attach(PodId id, NodeId node);
  void detach(PodId id);
  void left(NodeId id);
  void drop_pod(PodId id);
  // settle() finds the pod's GPUs on its node and adds its load; unsettle() removes the load.
  void settle(Pod& pod);
  void unsettle(const Pod& pod);
  void resolve(Pod& pod) const;
  template <class Visit>
  void each_load(const Pod& pod, Visit visit) const;
  [[nodiscard]] static std::vector<HeldShare> counted_shares(const Pod& pod);
  [[nodiscard]] PodHolding holding_of(const Pod& pod) const;
  [[nodiscard]] std::string problem_text(PodId id) const;
  [[nodiscard]] std::vector<std::string> held_list(const Pod& pod) const;
  [[nodiscard]] std::string overcommitted_list(NodeId id) const;
  void commit(PodId id, std::uint32_t generation);
  void release(PodId id, std::uint32_t generation);

  Options options_;
  NodeStates states_;

  std::deque<Node> nodes_;  // by NodeId
  // Texts by NodeId; unhealthy_ has one per slot. Maps, because few nodes have any.
  std::unordered_map<std::uint32_t, std::string> fence_texts_;
  std::unordered_map<std::uint32_t, std::vector<std::string>> unhealthy_;
  std::unordered_map<std::uint32_t, std::string> second_plugins_;
  std::unordered_map<std::uint32_t, std::string> capacity_texts_;
  boost::unordered_flat_set<NodeId, NameHash, SameName> by_name_{0, NameHash{this}, SameName{this}};
  std::vector<NodeId> present_;
  std::vector<Model> models_;  // by ModelId
  std::vector<ModelId> unused_models_;
  std::unordered_map<std::string, ModelId> model_ids_;
  std::unordered_map<topology::Topology, TopologyUse, topology::TopologyHash> topologies_;
  std::uint32_t next_topology_ = 0;
  std::uint64_t large_tables_built_ = 0;
  std::uint64_t inventory_version_ = 1;

  std::deque<Pod> pods_;
  std::vector<PodId> unused_pods_;
  std::unordered_map<std::string_view, PodId> by_uid_;

  // Error texts of invalid records; for kChangedRecord, what happened to the record. Few pods have one.
  std::unordered_map<PodId, std::string> record_faults_;
  std::array<std::size_t, kProblemKinds> problem_counts_{};
  std::array<std::uint64_t, kProblemKinds> problem_totals_{};
};

}  // namespace tessera::alloc
