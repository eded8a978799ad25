// extender/known_order.h
//
// The order of node names in an earlier request. It makes similar requests faster to read.
//
// kube-scheduler's threads each check a run of consecutive nodes and finish in any order. So a
// request consists mostly of runs of the previous request: a name is followed by the same names as
// before. While the text of a request matches such a run, one comparison of bytes replaces parsing,
// hashing and looking up each name. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "alloc/node_state.h"
#include "json/padded_buffer.h"

namespace tessera::extender {

class KnownOrder {
 public:
  // Learns an order. `text` is a list of quoted names, separated by commas. Name i is between
  // quotes 2i and 2i+1 and belongs to node i of `ids`. Copies everything.
  void learn(json::PaddedView text, std::span<const std::uint32_t> quotes,
             std::span<const alloc::NodeId> ids);

  [[nodiscard]] std::size_t size() const { return ids_.size(); }
  // Return the quotes and the IDs that were passed to learn().
  [[nodiscard]] std::span<const std::uint32_t> quotes() const { return quotes_; }
  [[nodiscard]] std::span<const alloc::NodeId> ids() const { return ids_; }

  struct Run {
    std::size_t place = 0;  // index of its first name in this order
    std::size_t count = 0;
  };
  // Returns the longest run of names that follows `node` in this order and with which `text`
  // begins. The count is 0 if there is none.
  [[nodiscard]] Run run_after(alloc::NodeId node, json::PaddedView text) const;

 private:
  json::PaddedBuffer text_;
  std::vector<std::uint32_t> quotes_;
  std::vector<alloc::NodeId> ids_;
  std::vector<std::uint32_t> next_;  // by NodeId: index of the next name; 0: not in this order
};

}  // namespace tessera::extender
