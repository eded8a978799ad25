// agent/gpu/foreign_watch.h
//
// Keeps an eye on whether another device plugin serves the GPUs of this node, by kubelet's checkpoint, and
// tells the node's readers once when one comes.
//
//   ForeignWatch foreign(plugin_dir, names, {.holder = ..., .tell = ...});
//   if (foreign.look(inventory)) { publish(without_foreign(inventory, foreign.use())); }
//
// On the event loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/gpu/foreign_use.h"
#include "alloc/inventory.h"
#include "alloc/names.h"
#include "base/clock.h"

namespace tessera::agent {

class ForeignWatch {
 public:
  struct Edges {
    NameOfHolder holder{};
    // Whether kubelet has taken a resource from us: before, its file tells of whoever was here last.
    std::function<bool(const std::string& resource)> registered = [](const std::string&) { return true; };
    // An Event on the node.
    std::function<void(const std::string& reason, const std::string& message)> tell{};
  };

  // `names` must live longer. `usurped_for`: kubelet writes its file a moment after it took us.
  ForeignWatch(std::string plugin_dir, const alloc::ResourceNames& names, Edges edges,
               std::chrono::milliseconds usurped_for = std::chrono::seconds(5));

  // True when use() has changed.
  bool look(const alloc::Inventory& inventory);
  // The same, where there may be something new.
  bool look_again(const alloc::Inventory& inventory);

  [[nodiscard]] const ForeignUse& use() const { return use_; }

 private:
  void tell_what_is_new(const ForeignUse& now) const;
  [[nodiscard]] std::vector<std::string> for_long(const std::vector<std::string>& usurped);

  const std::string plugin_dir_;
  const alloc::ResourceNames& names_;
  const Edges edges_;
  const std::chrono::milliseconds usurped_for_;
  ForeignUse use_;
  bool usurper_looked_for_ = false;
  std::map<std::string, Clock::Steady> usurped_since_;  // by resource
  std::pair<std::uint64_t, std::int64_t> stamp_;        // changes when kubelet replaces its file
};

}  // namespace tessera::agent
