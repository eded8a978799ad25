// agent/devices/served_kind.h
//
// One kind of device, served on this node: kubelet's questions answered, its resources registered, and what
// was given kept in a file.
//
//   Allocations book({.device = "gpu", .units = "mem"});
//   GpuKind gpus(names, book, ...);
//   ServedKind served(loop, pods, book, strategy, gpus, edges, {.file = state_dir + "/allocations.json"});
//   served.start();
//   served.publish();               // at every change of its devices
//
// On the event loop's thread, but for leave().
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/devices/allocator.h"
#include "agent/devices/late_file.h"
#include "agent/devices/plugins.h"
#include "agent/devices/readings.h"
#include "kube/event_aggregator.h"

namespace tessera::agent {

class ServedKind {
 public:
  struct Options {
    std::string file{};               // where the book is kept; empty: nowhere
    DevicePluginOptions plugins{};    // but for the resource
    std::function<void()> changed{};  // what was given has changed
  };

  // Reads the book from its file; one that cannot be read is rebuilt from kubelet. All must live longer.
  // `edges` without `changed`.
  ServedKind(http::EventLoop& loop, NodePods& pods, Allocations& book, GrantStrategy& strategy,
             DeviceKind& kind, Allocator::Edges edges, Options options);

  // From now on the first publish() waits a little for the pods of the node.
  void start();
  // Sends kubelet the lists of now, if they changed. The first call registers.
  void publish();
  // Not the loop's thread, while the loop runs: kubelet sees us go, and what it has asked is answered first.
  void leave() { plugins_.leave(); }

  // From the book of pods: each kind hears of all.
  void pod_changed() { allocator_.pod_changed(); }
  void pod_ended(const std::string& uid) { allocator_.pod_ended(uid); }
  void pods_synced();

  // The pods that have a device.
  [[nodiscard]] std::vector<kube::ObjectReference> holders_of(const std::string& device) const;
  // Whether what was given out is in a file that survives a restart.
  [[nodiscard]] bool is_kept() const { return !path_.empty() && file_.problem().empty(); }
  // Resources, and how kubelet's questions were answered.
  void add_readings(Readings& readings) const;

  [[nodiscard]] const Plugins& plugins() const { return plugins_; }

 private:
  Allocator::Edges with_file(Allocator::Edges edges, std::function<void()> changed);

  http::EventLoop& loop_;
  const NodePods& pods_;
  const Allocations& book_;
  const std::string path_;
  LateFile file_;
  Allocator allocator_;
  bool wanted_ = false;    // there is something to publish
  http::Timer pods_wait_;  // until the pods must be known before kubelet is told of us
  Plugins plugins_;        // last: it asks the allocator
};

}  // namespace tessera::agent
