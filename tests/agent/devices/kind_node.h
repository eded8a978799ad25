// A node for tests of whole kinds of devices: a kubelet that asks over its sockets, an API server that takes
// what it is told, and pods. The loop runs on a thread of its own; what stands here is for the test's.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "../../base/temporary_directory.h"
#include "agent/devices/metrics.h"
#include "agent/devices/served_kind.h"
#include "base/file.h"
#include "fake_cluster.h"
#include "fake_kubelet.h"

namespace tessera::agent {

class KindNode {
 public:
  // `others`: resources that are none of GPUs.
  explicit KindNode(std::vector<std::string> others)
      : pods(names,
             {.changed = [this](const NodePod&) { each(&ServedKind::pod_changed); },
              .ended =
                  [this](const std::string& uid) {
                    for (ServedKind* kind : kinds_) {
                      kind->pod_ended(uid);
                    }
                  },
              .synced = [this] { each(&ServedKind::pods_synced); }},
             std::move(others)) {
    std::filesystem::create_directories(root / "dev");
    cluster.put("/api/v1/nodes/gpu-a", R"({"metadata":{"name":"gpu-a"}})");
    thread_ = std::thread([this] { cluster.loop().run(); });
  }
  ~KindNode() {
    cluster.loop().stop();
    thread_.join();
  }

  // On the loop.
  void run(const std::function<void()>& task) { cluster.loop().call(task); }
  bool comes_true(const std::function<bool()>& condition) {
    const auto begun = std::chrono::steady_clock::now();
    bool is_true = false;
    while (!is_true && std::chrono::steady_clock::now() - begun < std::chrono::seconds(20)) {
      run([&] { is_true = condition(); });
    }
    return is_true;
  }

  void serve(ServedKind& kind) {
    run([&] {
      kinds_.push_back(&kind);
      kind.publish();
    });
    EXPECT_TRUE(comes_true([&] { return kind.plugins().not_ready().empty(); }));
  }
  void leave(ServedKind& kind) {
    kind.leave();
    run([&] { std::erase(kinds_, &kind); });
  }

  [[nodiscard]] Allocator::Edges edges() {
    return {.get =
                [this](const PodName& pod, std::chrono::milliseconds, PodResources::Done<PodDevices> done) {
                  const auto found = admitted.find(pod.name);
                  if (!has_get) {
                    done(fail(ErrorCode::kUnsupported, "no Get"));
                    return;
                  }
                  done(found == admitted.end() ? Result<PodDevices>(fail(ErrorCode::kNotFound, "no such pod"))
                                               : found->second);
                },
            .fetch = [](const std::function<void(Status)>& done) { done({}); },
            .checkpoint = [] { return Result<Checkpoint>(fail(ErrorCode::kNotFound, "no file")); },
            .tell =
                [this](const NodePod& pod, const std::string& reason, const std::string& message) {
                  told.push_back(reason + " " + pod.text() + ": " + message);
                },
            .begun =
                [this](const std::string& uid) {
                  return std::ranges::any_of(books,
                                             [&](const Allocations* book) { return book->knows(uid); });
                }};
  }

  // A pod is bound, and kubelet begins to admit it.
  void admit(const alloc::PodSpec& pod) {
    run([&] {
      PodDevices& shown = admitted[pod.name];
      shown.pod = {.namespace_name = pod.namespace_name, .name = pod.name};
      shown.containers[pod.containers.front().name];
      pods.put(pod, ++version_, true);
    });
  }
  void end(const std::string& uid) {
    run([&] { pods.remove(uid); });
  }
  v1beta1::ContainerAllocateResponse allocate(const std::string& resource,
                                              const std::vector<std::string>& ids) {
    kubelet.use(resource);
    v1beta1::ContainerAllocateResponse answer;
    const grpc::Status status = kubelet.allocate(ids, answer);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return answer;
  }
  std::string pre_start(const std::string& resource, const std::vector<std::string>& ids) {
    kubelet.use(resource);
    return kubelet.pre_start(ids).error_message();
  }

  TemporaryDirectory root;
  FakeCluster cluster;
  kube::Client client = cluster.client();
  alloc::ResourceNames names;
  NodePods pods;
  FakeKubelet kubelet{root / "device-plugins"};
  // Of the loop.
  std::map<std::string, PodDevices> admitted;  // pods that kubelet knows, by name
  std::vector<std::string> told;               // Events on pods and on the node
  std::vector<const Allocations*> books;       // for kinds that serve the same pods
  bool has_get = true;

 private:
  void each(void (ServedKind::*what)()) {
    for (ServedKind* kind : kinds_) {
      (kind->*what)();
    }
  }

  std::vector<ServedKind*> kinds_;
  std::uint64_t version_ = 100;
  std::thread thread_;
};

// A pod with one container, which asks for so many of a resource that is none of GPUs.
inline alloc::PodSpec pod_with(const std::string& name, const std::string& resource, int amount) {
  alloc::PodSpec pod;
  pod.namespace_name = "ml";
  pod.name = name;
  pod.uid = "uid-" + name;
  pod.node_name = "gpu-a";
  pod.containers.resize(1);
  pod.containers.front().name = "main";
  pod.containers.front().other_limits = {{resource, Quantity::units(amount)}};
  return pod;
}

}  // namespace tessera::agent
