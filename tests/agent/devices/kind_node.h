// A node for tests of whole device kinds: a fake kubelet that calls the plugins over their sockets,
// a fake API server, and pods. The event loop runs on its own thread. The methods are for the
// thread of the test.
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
#include "agent/devices/node_context.h"
#include "agent/devices/plugins.h"
#include "agent/devices/readings.h"
#include "base/file.h"
#include "fake_kubelet.h"
#include "test_cluster.h"

namespace tessera::agent {

class KindNode : private PodResources,
                 private PodFetch,
                 private CheckpointReader,
                 private kube::EventSink,
                 private PodListener {
 public:
  // `others` are the resources that are not GPUs.
  explicit KindNode(std::vector<std::string> others) : pods(names, std::move(others)) {
    pods.add_listener(*this);
    std::filesystem::create_directories(root / "dev");
    cluster.put("/api/v1/nodes/gpu-a", R"({"metadata":{"name":"gpu-a"}})");
    thread_ = std::thread([this] { cluster.loop().run(); });
  }
  ~KindNode() override {
    cluster.loop().stop();
    thread_.join();
  }
  KindNode(const KindNode&) = delete;
  KindNode& operator=(const KindNode&) = delete;

  // Runs `task` on the event loop.
  void run(const std::function<void()>& task) { cluster.loop().call(task); }
  // Returns whether `condition` becomes true on the event loop within 20 s.
  bool becomes_true(const std::function<bool()>& condition) {
    const auto begun = std::chrono::steady_clock::now();
    bool is_true = false;
    while (!is_true && std::chrono::steady_clock::now() - begun < std::chrono::seconds(20)) {
      run([&] { is_true = condition(); });
    }
    return is_true;
  }

  // Registers the plugins of a kind. Call leave() before they are destroyed.
  void serve(Plugins& plugins) {
    run([&] {
      served_.push_back(&plugins);
      plugins.publish();
    });
    EXPECT_TRUE(becomes_true([&] { return plugins.not_ready().empty(); }));
  }
  void leave(Plugins& plugins) {
    plugins.leave();
    run([&] { std::erase(served_, &plugins); });
  }

  // Binds a pod and makes kubelet begin to admit it.
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
  TestCluster cluster;
  // FilesKind writes a condition that is not in the table of Tessera's keys.
  kube::Client client = cluster.client("things-agent/test");
  alloc::ResourceNames names;
  NodePods pods;
  FakeKubelet kubelet{root / "device-plugins"};
  const NodeContext context{.node = "gpu-a",
                            .loop = cluster.loop(),
                            .client = client,
                            .events = *this,
                            .pods = pods,
                            .pod_resources = *this,
                            .pod_fetch = *this,
                            .checkpoints = *this,
                            .names = names};
  // Used only on the event loop.
  std::map<std::string, PodDevices> admitted;  // pods that kubelet knows, by name
  std::vector<std::string> recorded;           // Events: "ThingGone Node/gpu-a: ..."
  bool has_get = true;

 private:
  void get(const PodName& pod, std::chrono::milliseconds /*deadline*/,
           Done<Result<PodDevices>> done) override {
    const auto found = admitted.find(pod.name);
    if (!has_get) {
      done(fail(ErrorCode::kUnsupported, "no Get"));
    } else if (found == admitted.end()) {
      done(fail(ErrorCode::kNotFound, "no such pod"));
    } else {
      done(found->second);
    }
  }
  void fetch(Done<Status> done) override { done({}); }
  [[nodiscard]] Result<Checkpoint> read() const override { return fail(ErrorCode::kNotFound, "no file"); }
  bool record(const kube::EventNote& note) override {
    recorded.push_back(note.reason + " " + note.about.kind + "/" + note.about.name + ": " + note.message);
    return true;
  }
  void pods_synced() override {
    for (Plugins* plugins : served_) {
      plugins->pods_synced();
    }
  }

  std::vector<Plugins*> served_;
  std::uint64_t version_ = 100;
  std::thread thread_;
};

// A pod with one container that requests `amount` of a resource that is not a GPU.
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
