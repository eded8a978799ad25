// A node for tests of single classes of the agent: a NodeContext with a fake API server, pods,
// recorded Events and a checkpoint. Runs on the event loop of its TestCluster.
//
//   FakeNode node;
//   MemoryWatch watch(node.context, {});
//   EXPECT_THAT(node.events(), ElementsAre("! GpuGone Node/gpu-a ..."));
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/devices/node_context.h"
#include "test_cluster.h"

namespace tessera::agent {

class FakeNode : private PodResources, private PodFetch, private CheckpointReader, private kube::EventSink {
 public:
  // `plugin_dir` is the directory of kubelet's checkpoint. If it is empty, the member `checkpoint`
  // is used instead.
  explicit FakeNode(std::string plugin_dir = "") : plugin_dir_(std::move(plugin_dir)) {}

  // Returns the Events in order, such as "! GpuGone Node/gpu-a message". Only warnings start with
  // "!".
  [[nodiscard]] std::vector<std::string> events() const {
    std::vector<std::string> texts;
    for (const kube::EventNote& note : notes) {
      texts.push_back((note.warning ? "! " : "") + note.reason + " " + note.about.kind + "/" +
                      note.about.name + " " + note.message);
    }
    return texts;
  }

  TestCluster cluster;
  kube::Client client = cluster.client();
  alloc::ResourceNames names;
  NodePods pods{names};
  Checkpoint checkpoint;
  std::vector<kube::EventNote> notes;
  const NodeContext context{.node = "gpu-a",
                            .loop = cluster.loop(),
                            .client = client,
                            .events = *this,
                            .pods = pods,
                            .pod_resources = *this,
                            .pod_fetch = *this,
                            .checkpoints = *this,
                            .names = names};

 private:
  void get(const PodName& /*pod*/, std::chrono::milliseconds /*deadline*/,
           Done<Result<PodDevices>> done) override {
    done(fail(ErrorCode::kNotFound, "no such pod"));
  }
  void fetch(Done<Status> done) override { done({}); }
  [[nodiscard]] Result<Checkpoint> read() const override {
    return plugin_dir_.empty() ? Result<Checkpoint>(checkpoint) : Checkpoint::read(plugin_dir_);
  }
  bool record(const kube::EventNote& note) override {
    notes.push_back(note);
    return true;
  }

  const std::string plugin_dir_;
};

}  // namespace tessera::agent
