// agent/foreign_watch.h
//
// Keeps an eye on whether another device plugin serves the GPUs of this node, by kubelet's checkpoint, and
// tells the node's readers once when one comes.
//
//   ForeignWatch foreign(plugin_dir, names, {.holder = ..., .tell = ...});
//   if (foreign.look(inventory)) { publish(without_foreign(inventory, foreign.use())); }
//
// On the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "agent/foreign_use.h"
#include "alloc/inventory.h"
#include "alloc/names.h"

namespace tessera::agent {

class ForeignWatch {
 public:
  struct Edges {
    NameOfHolder holder{};
    // An Event on the node.
    std::function<void(const std::string& reason, const std::string& message)> tell{};
  };

  // `names` must live longer.
  ForeignWatch(std::string plugin_dir, const alloc::ResourceNames& names, Edges edges);

  // True when use() has changed.
  bool look(const alloc::Inventory& inventory);
  // The same, where there may be something new.
  bool look_again(const alloc::Inventory& inventory);

  [[nodiscard]] const ForeignUse& use() const { return use_; }

 private:
  void tell_what_is_new(const ForeignUse& now) const;

  const std::string plugin_dir_;
  const alloc::ResourceNames& names_;
  const Edges edges_;
  ForeignUse use_;
  std::pair<std::uint64_t, std::int64_t> stamp_;  // changes when kubelet replaces its file
};

}  // namespace tessera::agent
