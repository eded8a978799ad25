// A node for tests of admission, start and recovery: pods as the API server reports them, and a
// model of kubelet's device manager. Like kubelet, the model makes one call at a time, reuses the
// IDs of init containers at random, and has a podresources Get that knows only admitted pods.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "../../base/temporary_directory.h"
#include "agent/devices/admission.h"
#include "agent/devices/allocation_recovery.h"
#include "agent/devices/plugins.h"
#include "agent/devices/start_gate.h"
#include "agent/gpu/gpu_kind.h"
#include "agent/gpu/leftovers.h"
#include "alloc/record.h"
#include "http/event_loop.h"
#include "kube/base64.h"
#include "proto/deviceplugin_v1beta1.pb.h"

namespace tessera::agent {

using namespace std::chrono_literals;
using alloc::GpuResource;

inline alloc::Inventory gpus(unsigned count, unsigned gib = 16) {
  alloc::Inventory inventory;
  for (unsigned i = 0; i < count; ++i) {
    inventory.gpus.push_back({.uuid = fmt::format("GPU-{:08x}-0000-0000-0000-000000000000", 0xa0U + i),
                              .index = i,
                              .minor = static_cast<std::int32_t>(i),
                              .model = "Tesla V100-SXM2-16GB",
                              .memory_mib = gib * 1024});
  }
  inventory.topology = topology::Topology(count);
  return inventory;
}
inline std::string uuid(unsigned gpu) {
  return gpus(gpu + 1).gpus[gpu].uuid;
}

// Builds a pod: Pod("a").main("c", 3).on("c", {{1, 3}}).
struct Pod {
  explicit Pod(const std::string& name) {
    spec.namespace_name = "ml";
    spec.name = name;
    spec.uid = "uid-" + name;
    spec.node_name = "gpu-a";
  }
  Pod& container(const std::string& name, alloc::ContainerKind kind, GpuResource resource, int amount) {
    alloc::ContainerSpec one;
    one.name = name;
    one.kind = kind;
    if (amount > 0) {
      one.gpu_limits.emplace_back(resource, Quantity::units(amount));
    }
    spec.containers.push_back(one);
    return *this;
  }
  Pod& main(const std::string& name, int units) {
    return container(name, alloc::ContainerKind::kMain, GpuResource::kMemory, units);
  }
  Pod& init(const std::string& name, int units) {
    return container(name, alloc::ContainerKind::kInit, GpuResource::kMemory, units);
  }
  Pod& whole(const std::string& name, int count) {
    return container(name, alloc::ContainerKind::kMain, GpuResource::kWhole, count);
  }
  // Adds GPUs to the record of a container, as pairs of GPU index and units. 0 units mean a whole
  // GPU.
  Pod& on(const std::string& name, const std::vector<std::pair<unsigned, unsigned>>& where) {
    alloc::ContainerShares own{.container = name, .shares = {}};
    for (const auto& [gpu, units] : where) {
      own.shares.push_back({.gpu = uuid(gpu), .units = units, .whole = units == 0});
    }
    record.containers.push_back(own);
    spec.annotations[std::string(alloc::key::kAllocation)] = record.json();
    return *this;
  }
  Pod& state(alloc::ContainerState now) {
    for (alloc::ContainerSpec& one : spec.containers) {
      one.state = now;
    }
    return *this;
  }

  alloc::PodSpec spec;
  alloc::Record record;
};

// Returns a pod with `units` of one GPU and a record that names this GPU.
inline Pod share(const std::string& name, unsigned units, unsigned gpu) {
  return Pod(name).main("main", static_cast<int>(units)).on("main", {{gpu, units}});
}

// Runs the agent's classes between a fake kubelet (podresources, checkpoint) and a fake API server
// (pods, Events, records).
class Node : private PodResources,
             private PodFetch,
             private CheckpointReader,
             private RecordWriter,
             private kube::EventSink,
             private PodListener,
             private AllocationListener {
 public:
  using Env = std::map<std::string, std::string>;

  explicit Node(const alloc::Inventory& inventory, DeliveryStrategy* strategy = nullptr)
      : strategy_(strategy == nullptr ? &env_ : strategy) {
    restart_agent();
    set_inventory(inventory);
  }
  ~Node() override { stop_agent(); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  static constexpr const char* kEmptyState = R"({"v":1,"allocations":[]})";

  // Restarts the agent with a saved state (an empty one by default) and, if given, another
  // strategy.
  void restart_agent(const std::string& state = kEmptyState, DeliveryStrategy* strategy = nullptr) {
    strategy_ = strategy == nullptr ? strategy_ : strategy;
    stop_agent();
    pods = std::make_unique<NodePods>(names);
    pods->add_listener(*this);
    context_.emplace(NodeContext{.node = "gpu-a",
                                 .loop = loop,
                                 .client = client_,
                                 .events = *this,
                                 .pods = *pods,
                                 .pod_resources = *this,
                                 .pod_fetch = *this,
                                 .checkpoints = *this,
                                 .names = names});
    store_ = std::make_unique<AllocationStore>(*context_, GpuKind::keys(), "");
    store_->add_listener(*this);
    EXPECT_TRUE(allocations().parse(state));
    RecordWriter& writer = *this;
    leftovers_ =
        std::make_unique<Leftovers>(loop, allocations(), LeftoversOptions{proc_root.path(), driver_deadline});
    leftovers_->set_sampler([this](const auto& done) {
      ++samples;
      if (!driver_hangs) {
        done(processes);
      }
    });
    kind = std::make_unique<GpuKind>(
        *context_, allocations(), writer,
        GpuKind::Options{
            .files = files_, .can_update = strategy_->can_update(), .leftovers = leftovers_.get()});
    kind->set_inventory(inventory_);
    const KindContext served{.node = *context_, .kind = *kind, .strategy = *strategy_, .store = *store_};
    recovery_ = std::make_unique<AllocationRecovery>(served);
    admission = std::make_unique<Admission>(served, *recovery_);
    start_gate = std::make_unique<StartGate>(served, *recovery_);
  }

  void set_inventory(const alloc::Inventory& inventory) {
    inventory_ = inventory;
    kind->set_inventory(inventory);
    for (const ResourceList& list : lists()) {
      devices_[list.resource] = healthy(list.devices);
    }
  }

  // Restarts the agent, and the API server lists these pods of the node.
  void restart_agent_among(const std::vector<Pod>& bound, const std::string& state = kEmptyState,
                           DeliveryStrategy* strategy = nullptr) {
    restart_agent(state, strategy);
    for (const Pod& pod : bound) {
      bind(pod);
    }
    pods->synced();
    settle();
  }
  // Binds two pods and admits them in the opposite order without Get, so that the agent confuses
  // them.
  void admit_swapped(const Pod& first, const Pod& second) {
    has_get = false;
    bind(first);
    bind(second);
    ASSERT_TRUE(admit(second));
    ASSERT_TRUE(admit(first));
  }

  // Binds a pod, and the watch delivers it.
  void bind(const Pod& pod) { pods->put(pod.spec, ++version_, true); }
  // Binds a pod that the watch has not delivered yet.
  void bind_unseen(const Pod& pod) { unseen.emplace_back(pod.spec, ++version_); }
  void end(const Pod& pod) {
    pods->remove(pod.spec.uid);
    known_.erase(PodName{pod.spec.namespace_name, pod.spec.name});
    for (auto& [key, ids] : std::exchange(used_, {})) {
      if (!key.starts_with(pod.spec.uid + "/")) {
        used_[key] = ids;
      }
    }
  }

  // Makes kubelet admit the pod. Returns the environment of each container, or the error with which
  // the pod failed.
  Result<std::map<std::string, Env>> admit(const Pod& pod) {
    PodDevices& shown = known_[{pod.spec.namespace_name, pod.spec.name}];
    shown.pod = {.namespace_name = pod.spec.namespace_name, .name = pod.spec.name};
    for (const auto& container : pod.spec.containers) {
      if (container.kind != alloc::ContainerKind::kInit) {
        shown.containers[container.name];
      }
    }
    std::map<std::string, Env> envs;
    std::map<std::string, std::vector<std::string>> reusable;  // by resource
    for (const auto& container : pod.spec.containers) {
      for (const auto& [resource, amount] : container.gpu_limits) {
        const std::string& name = names.name(resource);
        auto ids = TRY(pick(resource, static_cast<std::size_t>(amount.rounded_up()), reusable[name]));
        const ContainerResponse response = TRY(ask_allocate(resource, ids));
        envs[container.name].insert(response.env.begin(), response.env.end());
        responses_[pod.spec.uid + "/" + container.name + "/" + name] = response_text(response);
        for (const std::string& device : response.cdi_devices) {
          cdi_names[pod.spec.name + "/" + container.name] = device.substr(device.find('=') + 1);
        }
        used_[pod.spec.uid + "/" + container.name + "/" + name] = {ids.begin(), ids.end()};
        std::ranges::sort(ids);
        if (container.kind == alloc::ContainerKind::kInit) {
          reusable[name] = ids;
        } else {
          std::erase_if(reusable[name],
                        [&](const std::string& id) { return std::ranges::find(ids, id) != ids.end(); });
          // kubelet's Get returns these IDs only after the admission.
          admitted_.emplace_back(PodName{pod.spec.namespace_name, pod.spec.name}, container.name, name, ids);
        }
      }
    }
    for (const auto& [who, container, resource, ids] : std::exchange(admitted_, {})) {
      known_[who].containers[container][resource] = ids;
    }
    return envs;
  }

  Status pre_start(const Pod& pod, const std::string& container,
                   GpuResource resource = GpuResource::kMemory) {
    const auto& ids = used_[pod.spec.uid + "/" + container + "/" + names.name(resource)];
    return pre_start_ids({ids.begin(), ids.end()}, resource);
  }
  Status pre_start_ids(const std::vector<std::string>& ids, GpuResource resource = GpuResource::kMemory) {
    std::optional<Status> status;
    start_gate->pre_start(names.name(resource), ids, [&](Status answer) { status = std::move(answer); });
    EXPECT_TRUE(loop.run_until([&] { return status.has_value(); }, 20s));
    return status.value_or(fail(ErrorCode::kTimeout, "no answer"));
  }

  // Returns the GPUs of the IDs that kubelet picked for a container.
  std::set<std::string> gpus_by_ids(const Pod& pod, const std::string& container,
                                    GpuResource resource = GpuResource::kMemory) {
    std::set<std::string> found;
    GpuIds ids;
    for (const alloc::Gpu& gpu : inventory_.gpus) {
      ids.tag(gpu.uuid);
    }
    for (const std::string& id : used_[pod.spec.uid + "/" + container + "/" + names.name(resource)]) {
      found.insert(ids.gpu_of(id).value_or("?"));
    }
    return found;
  }
  std::set<std::string>& used(const Pod& pod, const std::string& container) {
    return used_[pod.spec.uid + "/" + container + "/" + names.memory()];
  }
  // Makes kubelet offer only shares of these GPUs.
  void offer_only(const std::set<unsigned>& which) {
    std::set<std::string> tags;
    for (const unsigned gpu : which) {
      tags.insert(GpuIds().tag(uuid(gpu)));
    }
    std::erase_if(devices_[names.memory()],
                  [&](const std::string& id) { return !tags.contains(id.substr(0, id.find('-'))); });
  }
  // Returns kubelet's checkpoint.
  [[nodiscard]] Checkpoint checkpoint() const {
    Checkpoint file;
    for (const auto& [key, ids] : used_) {
      const auto uid = key.substr(0, key.find('/'));
      const auto rest = key.substr(uid.size() + 1);
      const auto container = rest.substr(0, rest.find('/'));
      file.entries.push_back({.pod_uid = uid,
                              .container = container,
                              .resource = rest.substr(container.size() + 1),
                              .ids = {ids.begin(), ids.end()},
                              .response = responses_.contains(key) ? responses_.at(key) : ""});
    }
    return file;
  }
  // Makes kubelet forget all pods, as if it had just started or lost its checkpoint.
  void forget_known() { known_.clear(); }
  void settle() {
    bool done = false;
    loop.post([&] { loop.post([&] { done = true; }); });
    loop.run_until([&] { return done; }, 20s);
  }

  // Returns the current device lists for kubelet.
  std::vector<ResourceList> lists() { return lists_with_held(*kind, allocations()); }
  Allocations& allocations() { return store_->allocations(); }
  const NodeContext& context() { return *context_; }

  alloc::ResourceNames names;
  http::EventLoop loop;
  std::unique_ptr<NodePods> pods;
  std::unique_ptr<GpuKind> kind;
  std::unique_ptr<Admission> admission;
  std::unique_ptr<StartGate> start_gate;
  std::vector<std::pair<alloc::PodSpec, std::uint64_t>> unseen;
  std::set<std::string> recorded;                // Events: "a GpuLost"
  std::map<std::string, std::string> cdi_names;  // "a/main" -> the CDI name in kubelet's checkpoint
  std::string saved;
  bool has_get = true;
  bool has_checkpoint = true;
  bool api_away = false;
  std::map<std::string, RecordRepair> repairs;  // the last repair, by pod name
  bool prefers = true;                          // whether kubelet asks for preferred IDs
  TemporaryDirectory proc_root;
  std::vector<gpu::GpuSample> processes;  // on the GPUs
  bool driver_hangs = false;
  std::chrono::milliseconds driver_deadline{10};
  int samples = 0;  // how often the driver was asked for processes
  int gets_left = 1'000'000;
  int gets_late = 0;  // number of Gets that time out
  int gets = 0;
  int fetches = 0;

 private:
  // Returns a plugin's response in the format of kubelet's checkpoint.
  static std::string response_text(const ContainerResponse& response) {
    v1beta1::ContainerAllocateResponse message;
    message.mutable_envs()->insert(response.env.begin(), response.env.end());
    for (const DeviceNode& node : response.nodes) {
      message.add_devices()->set_host_path(node.host_path);
    }
    for (const std::string& name : response.cdi_devices) {
      message.add_cdi_devices()->set_name(name);
    }
    return kube::encode_base64(message.SerializeAsString());
  }

  static std::set<std::string> healthy(const std::vector<Device>& devices) {
    std::set<std::string> ids;
    for (const Device& device : devices) {
      if (device.healthy) {
        ids.insert(device.id);
      }
    }
    return ids;
  }

  void stop_agent() {
    start_gate.reset();
    admission.reset();
    recovery_.reset();
    kind.reset();
    leftovers_.reset();
    store_.reset();
    context_.reset();
    pods.reset();
  }

  // PodListener, AllocationListener
  void pods_synced() override {
    recovery_->recover();
    admission->lookup().retry_waiting();
  }
  void allocations_changed() override { saved = allocations().json(); }

  // kube::EventSink
  bool record(const kube::EventNote& note) override {
    recorded.insert(note.about.name + " " + note.reason);
    return true;
  }

  // RecordWriter: the API server applies the patch, and the watch delivers the new version.
  void write(const NodePod& pod, const RecordRepair& repair, Done<Status> done) override {
    loop.post([this, spec = pod.spec, repair, done = std::move(done)] { done(patch(spec, repair)); });
  }
  Status patch(alloc::PodSpec pod, const RecordRepair& repair) {
    if (api_away) {
      return fail(ErrorCode::kUnavailable, "no API server");
    }
    repairs[pod.name] = repair;
    for (const auto& [name, value] : repair.annotations) {
      pod.annotations.erase(name);
      if (value) {
        pod.annotations[name] = *value;
      }
    }
    pods->put(pod, ++version_, true);
    return {};
  }

  // PodFetch
  void fetch(Done<Status> done) override {
    loop.post([this, done = std::move(done)] {
      ++fetches;
      if (api_away) {
        done(fail(ErrorCode::kUnavailable, "no API server"));
        return;
      }
      for (const auto& [pod, version] : unseen) {
        pods->put(pod, version, false);
      }
      done({});
    });
  }

  // CheckpointReader
  [[nodiscard]] Result<Checkpoint> read() const override {
    if (!has_checkpoint) {
      return fail(ErrorCode::kNotFound, "no checkpoint");
    }
    return checkpoint();
  }

  // PodResources
  void get(const PodName& pod, std::chrono::milliseconds /*deadline*/,
           Done<Result<PodDevices>> done) override {
    ++gets;
    Result<PodDevices> answer = fail(ErrorCode::kNotFound, "pod not found");
    if (!has_get) {
      answer = fail(ErrorCode::kUnsupported, "PodResources API Get method disabled");
    } else if (gets_late > 0) {
      --gets_late;
      answer = fail(ErrorCode::kTimeout, "Deadline Exceeded");
    } else if (gets_left-- <= 0) {
      gets_left = 1;  // the bucket fills during the pause
      answer = fail(ErrorCode::kExhausted, "rejected by rate limit");
    } else if (const auto found = known_.find(pod); found != known_.end()) {
      answer = found->second;
    }
    done(std::move(answer));
  }

  // Picks IDs like kubelet: reuses those of init containers, and asks for preferred IDs only if
  // there is a choice.
  Result<std::vector<std::string>> pick(GpuResource resource, std::size_t size,
                                        std::vector<std::string> reusable) {
    std::ranges::shuffle(reusable, random_);
    if (reusable.size() >= size) {
      reusable.resize(size);
      return reusable;
    }
    std::set<std::string> available = devices_[names.name(resource)];
    for (const auto& [key, ids] : used_) {
      for (const std::string& id : ids) {
        if (key.ends_with(names.name(resource)) && std::ranges::find(reusable, id) == reusable.end()) {
          available.erase(id);
        }
      }
    }
    if (available.size() < size) {
      return fail(ErrorCode::kExhausted, "requested number of devices unavailable");
    }
    std::vector<std::string> chosen = reusable;
    if (prefers) {
      std::optional<std::vector<std::string>> answer;
      admission->prefer(
          names.name(resource),
          {.available = {available.begin(), available.end()}, .must_include = reusable, .size = size},
          [&](std::vector<std::string> ids) { answer = std::move(ids); });
      EXPECT_TRUE(loop.run_until([&] { return answer.has_value(); }, 20s));
      EXPECT_EQ(answer->size(), size);
      chosen = *answer;
    }
    for (const std::string& id : available) {
      if (chosen.size() < size && std::ranges::find(chosen, id) == chosen.end()) {
        chosen.push_back(id);
      }
    }
    return chosen;
  }

  Result<ContainerResponse> ask_allocate(GpuResource resource, const std::vector<std::string>& ids) {
    std::optional<Result<ContainerResponse>> answer;
    admission->allocate(names.name(resource), ids,
                        [&](Result<ContainerResponse> response) { answer = std::move(response); });
    EXPECT_TRUE(loop.run_until([&] { return answer.has_value(); }, 20s));
    settle();
    return answer.value_or(fail(ErrorCode::kTimeout, "no answer"));
  }

  static kube::Client unused_client(http::EventLoop& loop) {
    kube::ClusterAccess access;
    access.cluster.server = "http://127.0.0.1:1";
    return kube::Client::create(loop, access, {}).value();
  }

  kube::Client client_ = unused_client(loop);
  std::optional<NodeContext> context_;
  std::unique_ptr<AllocationStore> store_;
  std::unique_ptr<Leftovers> leftovers_;
  std::unique_ptr<AllocationRecovery> recovery_;
  EnvStrategy env_;
  DriverFilesOptions files_;
  DeliveryStrategy* strategy_;
  alloc::Inventory inventory_;
  std::uint64_t version_ = 100;
  std::map<std::string, std::set<std::string>> devices_;  // by resource
  std::map<std::string, std::set<std::string>> used_;     // "uid/container/resource"
  std::map<std::string, std::string> responses_;          // by the same keys
  std::map<PodName, PodDevices> known_;
  std::vector<std::tuple<PodName, std::string, std::string, std::vector<std::string>>> admitted_;
  std::mt19937 random_{7};
};

inline std::string sees(const Result<std::map<std::string, Node::Env>>& envs,
                        const std::string& container = "main") {
  return envs ? envs->at(container).at("NVIDIA_VISIBLE_DEVICES") : envs.error().text();
}

}  // namespace tessera::agent
