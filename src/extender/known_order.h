// extender/known_order.h
//
// A list of names that was read before, along which later ones are read quicker.
//
// kube-scheduler's threads look at nodes in runs and end in any order, so that the names of a call are mostly
// those of the call before, in pieces: behind a name come those that came behind it then. As far as a text
// goes on like the known one, comparing bytes does what reading, hashing and looking up name by name would.
// One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "alloc/node_state.h"
#include "json/padded_buffer.h"

namespace tessera::extender {

class KnownOrder {
 public:
  // `text` is names in quotes with a comma between; name number i stands between quotes 2i and 2i+1 and is
  // node number i of `ids`. Copies all of it.
  void learn(json::PaddedView text, std::span<const std::uint32_t> quotes,
             std::span<const alloc::NodeId> ids);

  [[nodiscard]] std::size_t size() const { return ids_.size(); }
  // As they were learnt.
  [[nodiscard]] std::span<const std::uint32_t> quotes() const { return quotes_; }
  [[nodiscard]] std::span<const alloc::NodeId> ids() const { return ids_; }

  struct Run {
    std::size_t place = 0;  // of its first name in this order
    std::size_t count = 0;
  };
  // With how many of the names that come behind `node` here `text` begins, byte for byte.
  [[nodiscard]] Run run_behind(alloc::NodeId node, json::PaddedView text) const;

 private:
  json::PaddedBuffer text_;
  std::vector<std::uint32_t> quotes_;
  std::vector<alloc::NodeId> ids_;
  std::vector<std::uint32_t> behind_;  // by NodeId: the place behind it, 0 for nodes that are not here
};

}  // namespace tessera::extender
