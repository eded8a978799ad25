// agent/gpu/foreign_watch.h
//
// Detects another device plugin that serves the GPUs of this node, and reports it once in an Event
// on the node. Reads kubelet's checkpoint.
//
//   ForeignWatch foreign(node, kind, plugin_dir);
//   if (foreign.update(inventory, plugins)) { publish(without_foreign(inventory, foreign.use())); }
//
// Use it on the event loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/devices/node_context.h"
#include "agent/gpu/foreign_use.h"
#include "agent/gpu/gpu_kind.h"
#include "alloc/inventory.h"
#include "base/clock.h"

namespace tessera::agent {

class ForeignWatch {
 public:
  // The resources of Tessera that are currently registered with kubelet. If one of Tessera's
  // resources is not registered, kubelet's checkpoint still describes the plugin that served it
  // last.
  using Registered = std::set<std::string>;

  // kubelet writes its checkpoint a moment after a registration. Until then, the checkpoint may
  // still describe another plugin that served one of our resources before. So another plugin counts
  // only if the checkpoint has described it for at least `override_delay`. `node` and `kind` must
  // outlive this object.
  ForeignWatch(const NodeContext& node, const GpuKind& kind, const std::string& plugin_dir,
               std::chrono::milliseconds override_delay = std::chrono::seconds(5));

  // Reads kubelet's checkpoint. Returns whether use() has changed.
  bool update(const alloc::Inventory& inventory, const Registered& registered);
  // Like update(), but does nothing and returns false if use() cannot have changed. use() can
  // change when kubelet writes its checkpoint, and when a pod becomes known or ends.
  bool update_if_changed(const alloc::Inventory& inventory, const Registered& registered);

  [[nodiscard]] const ForeignUse& use() const { return use_; }

 private:
  [[nodiscard]] std::optional<std::string> name_of_holder(const std::string& pod_uid) const;
  [[nodiscard]] std::vector<std::string> lasting_overrides(const std::vector<std::string>& overridden,
                                                           const Registered& registered);
  void report_changes(const ForeignUse& now) const;
  void warn_about_node(const std::string& reason, const std::string& message) const;

  const NodeContext& node_;
  const GpuKind& kind_;
  const std::string checkpoint_path_;
  const std::chrono::milliseconds override_delay_;
  ForeignUse use_;
  bool override_suspected_ = false;
  std::map<std::string, Clock::Steady> overridden_since_;  // by resource
  std::pair<std::uint64_t, std::int64_t> stamp_;           // changes when kubelet writes its checkpoint
};

}  // namespace tessera::agent
