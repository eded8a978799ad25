// A node for tests of the allocator: pods as the API server would tell them, and kubelet's device manager as
// facts tell it (one question at a time, the IDs of init containers used again at random, Get that knows
// admitted pods only).
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

#include "agent/devices/allocator.h"
#include "agent/gpu/gpu_kind.h"
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

// A pod that is put together in words: Pod("a").main("c", 3).on("c", {{1, 3}}).
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
  // What the extender decided: GPU index -> units; 0 units is the whole GPU.
  Pod& on(const std::string& name, const std::vector<std::pair<unsigned, unsigned>>& where) {
    alloc::ContainerShares grants{.container = name, .shares = {}};
    for (const auto& [gpu, units] : where) {
      grants.shares.push_back({.gpu = uuid(gpu), .units = units, .whole = units == 0});
    }
    record.containers.push_back(grants);
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

// One GPU pod of `units` on one GPU, decided.
inline Pod share(const std::string& name, unsigned units, unsigned gpu) {
  return Pod(name).main("main", static_cast<int>(units)).on("main", {{gpu, units}});
}

class Node {
 public:
  using Env = std::map<std::string, std::string>;

  explicit Node(const alloc::Inventory& inventory, GrantStrategy* strategy = nullptr)
      : strategy_(strategy == nullptr ? &env_ : strategy) {
    restart_agent();
    set_inventory(inventory);
  }

  static constexpr const char* kNoRecord = R"({"v":1,"allocations":[]})";

  // The agent starts anew with what it wrote before (or without), with another strategy if that is given.
  void restart_agent(const std::string& state = kNoRecord, GrantStrategy* strategy = nullptr) {
    strategy_ = strategy == nullptr ? strategy_ : strategy;
    allocator.reset();
    kind.reset();
    pods = std::make_unique<NodePods>(
        names, NodePods::Events{.changed = [this](const NodePod&) { allocator->pod_changed(); },
                                .ended = [this](const std::string& uid) { allocator->pod_ended(uid); },
                                .synced = [this] { allocator->pods_synced(); }});
    allocations = Allocations(GpuKind::keys());
    EXPECT_TRUE(allocations.parse(state));
    kind = std::make_unique<GpuKind>(
        loop, names, *pods, allocations, GpuKind::Options{.files = files_, .mends = strategy_->can_mend()},
        GpuKind::Edges{.repair =
                           [this](const NodePod& pod, const RecordRepair& repair,
                                  std::function<void(const Status&)> done) {
                             loop.post([this, spec = pod.spec, repair, done = std::move(done)] {
                               done(write(spec, repair));
                             });
                           },
                       .tell = [this](const NodePod& pod, const std::string& reason,
                                      const std::string&) { told.insert(pod.spec.name + " " + reason); }});
    kind->set_inventory(inventory_);
    allocator = std::make_unique<Allocator>(
        loop, *pods, allocations, *strategy_, *kind,
        Allocator::Edges{.get = [this](const PodName& pod, std::chrono::milliseconds,
                                       PodResources::Done<PodDevices> done) { get(pod, std::move(done)); },
                         .fetch =
                             [this](std::function<void(Status)> done) {
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
                             },
                         .checkpoint = [this]() -> Result<Checkpoint> {
                           if (!has_checkpoint) {
                             return fail(ErrorCode::kNotFound, "no checkpoint");
                           }
                           return checkpoint();
                         },
                         .tell = [this](const NodePod& pod, const std::string& reason,
                                        const std::string&) { told.insert(pod.spec.name + " " + reason); },
                         .changed = [this] { saved = allocations.json(); }});
  }

  void set_inventory(const alloc::Inventory& inventory) {
    inventory_ = inventory;
    kind->set_inventory(inventory);
    for (const ResourceList& list : allocator->lists()) {
      devices_[list.resource] = healthy(list.devices);
    }
  }

  // The same, and it is told of all pods of the node.
  void restart_agent_among(const std::vector<Pod>& bound, const std::string& state = kNoRecord,
                           GrantStrategy* strategy = nullptr) {
    restart_agent(state, strategy);
    for (const Pod& pod : bound) {
      bind(pod);
    }
    pods->synced();
    settle();
  }
  // Two pods that are bound in this order are admitted in the other one; where kubelet has no Get, they are
  // mixed up.
  void admit_swapped(const Pod& first, const Pod& second) {
    has_get = false;
    bind(first);
    bind(second);
    ASSERT_TRUE(admit(second));
    ASSERT_TRUE(admit(first));
  }

  // Bound, and the watch has told it.
  void bind(const Pod& pod) { pods->put(pod.spec, ++version_, true); }
  // Bound, but the watch is late.
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

  // kubelet admits: everything each container gets, or the error that ended the pod.
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
        const Grant grant = TRY(ask_allocate(resource, ids));
        envs[container.name].insert(grant.env.begin(), grant.env.end());
        responses_[pod.spec.uid + "/" + container.name + "/" + name] = response_text(grant);
        for (const std::string& device : grant.cdi_devices) {
          cdi_names[pod.spec.name + "/" + container.name] = device.substr(device.find('=') + 1);
        }
        used_[pod.spec.uid + "/" + container.name + "/" + name] = {ids.begin(), ids.end()};
        std::ranges::sort(ids);
        if (container.kind == alloc::ContainerKind::kInit) {
          reusable[name] = ids;
        } else {
          std::erase_if(reusable[name],
                        [&](const std::string& id) { return std::ranges::find(ids, id) != ids.end(); });
          // In kubelet's answer only when the admission is through.
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
    allocator->pre_start(names.name(resource), ids, [&](Status answer) { status = std::move(answer); });
    EXPECT_TRUE(loop.run_until([&] { return status.has_value(); }, 20s));
    return status.value_or(fail(ErrorCode::kTimeout, "no answer"));
  }

  // GPUs that the IDs of a container are of, as kubelet shows them.
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
  // kubelet offers shares of these GPUs only.
  void offer_only(const std::set<unsigned>& which) {
    std::set<std::string> tags;
    for (const unsigned gpu : which) {
      tags.insert(GpuIds().tag(uuid(gpu)));
    }
    std::erase_if(devices_[names.memory()],
                  [&](const std::string& id) { return !tags.contains(id.substr(0, id.find('-'))); });
  }
  // What kubelet wrote down of who has what.
  [[nodiscard]] Checkpoint checkpoint() const {
    Checkpoint file;
    for (const auto& [key, ids] : used_) {
      const auto uid = key.substr(0, key.find('/'));
      const auto rest = key.substr(uid.size() + 1);
      const auto container = rest.substr(0, rest.find('/'));
      file.given.push_back({.pod_uid = uid,
                            .container = container,
                            .resource = rest.substr(container.size() + 1),
                            .ids = {ids.begin(), ids.end()},
                            .response = responses_.contains(key) ? responses_.at(key) : ""});
    }
    return file;
  }
  // kubelet has just started: it knows no pod for a moment. Or it lost its checkpoint.
  void forget_known() { known_.clear(); }
  void settle() {
    bool done = false;
    loop.post([&] { loop.post([&] { done = true; }); });
    loop.run_until([&] { return done; }, 20s);
  }

  alloc::ResourceNames names;
  http::EventLoop loop;
  std::unique_ptr<NodePods> pods;
  Allocations allocations{GpuKind::keys()};
  std::unique_ptr<GpuKind> kind;
  std::unique_ptr<Allocator> allocator;
  std::vector<std::pair<alloc::PodSpec, std::uint64_t>> unseen;
  std::set<std::string> told;
  std::map<std::string, std::string> cdi_names;  // "a/main" -> what kubelet keeps for the container
  std::string saved;
  bool has_get = true;
  bool has_checkpoint = true;
  bool api_away = false;
  std::map<std::string, RecordRepair> repairs;  // by name of the pod, the last of each
  bool prefers = true;                          // kubelet asks for preferred IDs
  int gets_left = 1'000'000;
  int gets_late = 0;  // so many are not answered in time
  int gets = 0;
  int fetches = 0;

 private:
  // As kubelet keeps a plugin's answer.
  static std::string response_text(const Grant& grant) {
    v1beta1::ContainerAllocateResponse response;
    response.mutable_envs()->insert(grant.env.begin(), grant.env.end());
    for (const DeviceNode& node : grant.nodes) {
      response.add_devices()->set_host_path(node.host_path);
    }
    for (const std::string& name : grant.cdi_devices) {
      response.add_cdi_devices()->set_name(name);
    }
    return kube::encode_base64(response.SerializeAsString());
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

  // The API server takes a patch, and the watch tells it.
  Status write(alloc::PodSpec pod, const RecordRepair& repair) {
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

  void get(const PodName& pod, PodResources::Done<PodDevices> done) {
    ++gets;
    Result<PodDevices> answer = fail(ErrorCode::kNotFound, "pod not found");
    if (!has_get) {
      answer = fail(ErrorCode::kUnsupported, "PodResources API Get method disabled");
    } else if (gets_late > 0) {
      --gets_late;
      answer = fail(ErrorCode::kTimeout, "Deadline Exceeded");
    } else if (gets_left-- <= 0) {
      gets_left = 1;  // the bucket fills while one waits
      answer = fail(ErrorCode::kExhausted, "rejected by rate limit");
    } else if (const auto found = known_.find(pod); found != known_.end()) {
      answer = found->second;
    }
    done(std::move(answer));
  }

  // As kubelet does: reuse what init containers had, ask only when something is left to choose.
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
      allocator->prefer(
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

  Result<Grant> ask_allocate(GpuResource resource, const std::vector<std::string>& ids) {
    std::optional<Result<Grant>> answer;
    allocator->allocate(names.name(resource), ids, [&](Result<Grant> grant) { answer = std::move(grant); });
    EXPECT_TRUE(loop.run_until([&] { return answer.has_value(); }, 20s));
    settle();
    return answer.value_or(fail(ErrorCode::kTimeout, "no answer"));
  }

  EnvStrategy env_;
  DriverFilesOptions files_;
  GrantStrategy* strategy_;
  alloc::Inventory inventory_;
  std::uint64_t version_ = 100;
  std::map<std::string, std::set<std::string>> devices_;  // by resource
  std::map<std::string, std::set<std::string>> used_;     // "uid/container/resource"
  std::map<std::string, std::string> responses_;          // the same
  std::map<PodName, PodDevices> known_;
  std::vector<std::tuple<PodName, std::string, std::string, std::vector<std::string>>> admitted_;
  std::mt19937 random_{7};
};

inline std::string sees(const Result<std::map<std::string, Node::Env>>& envs,
                        const std::string& container = "main") {
  return envs ? envs->at(container).at("NVIDIA_VISIBLE_DEVICES") : envs.error().text();
}

}  // namespace tessera::agent
