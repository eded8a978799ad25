// A node for tests of single classes of the agent: a NodeContext with a fake API server, pods,
// collected Events and a checkpoint. Runs on the test's own loop.
//
//   FakeNode node;
//   MemoryWatch watch(node.context, {});
//   EXPECT_THAT(node.events(), ElementsAre("! GpuGone Node/gpu-a ..."));
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/devices/node_context.h"
#include "fake_cluster.h"

namespace tessera::agent {

class FakeNode : private PodResources, private PodFetch, private CheckpointReader, private kube::EventSink {
 public:
  // `plugin_dir`: where kubelet's checkpoint is; empty: `checkpoint` takes its place.
  explicit FakeNode(std::string plugin_dir = "") : plugin_dir_(std::move(plugin_dir)) {}

  // The Events in order: "! GpuGone Node/gpu-a message"; only warnings begin with "!".
  [[nodiscard]] std::vector<std::string> events() const {
    std::vector<std::string> texts;
    for (const kube::EventNote& note : notes) {
      texts.push_back((note.warning ? "! " : "") + note.reason + " " + note.about.kind + "/" +
                      note.about.name + " " + note.message);
    }
    return texts;
  }

  FakeCluster cluster;
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
