// extender/node_list.h
//
// The nodes of a call: thousands of quoted names, "a","b","c", read into ids of the ledger.
//
// A list that is byte for byte one of the last few is not read again: prioritize after a filter that all have
// passed. One that is made of pieces of a known one is read piece by piece (known_order.h). In any other all
// names are found first and then looked up together. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "extender/known_order.h"
#include "extender/node_index.h"
#include "json/padded_buffer.h"

namespace tessera::extender {

class NodeList {
 public:
  [[nodiscard]] std::size_t size() const { return ids_.size(); }
  // In the order of the list; kUnknownNode for names that the index does not have.
  [[nodiscard]] std::span<const alloc::NodeId> ids() const { return ids_; }
  [[nodiscard]] std::size_t unknown() const { return unknown_; }

  // Elements lo..hi-1 as they stand in `text`, which must be what the list was read from.
  [[nodiscard]] std::string_view quoted(std::string_view text, std::size_t lo, std::size_t hi) const {
    // Once for each of thousands: not checked again.
    const std::uint32_t* quotes = quotes_.data();
    const std::uint32_t begin = quotes[2 * lo];
    return {text.data() + begin, quotes[2 * hi - 1] + 1 - begin};
  }

 private:
  friend class NodeLists;

  std::vector<std::uint32_t> quotes_;  // where each name begins and ends; longer than needed
  std::vector<alloc::NodeId> ids_;
  std::size_t unknown_ = 0;
};

class NodeLists {
 public:
  // Refers to the index, which must live longer.
  explicit NodeLists(const NodeIndex& index) : index_(index) {}

  // The list, valid until the next call; null when the text is not names in quotes with a comma between and
  // nothing else. A name that holds escapes or bytes beyond ASCII need not be what it looks like: then it is
  // null too.
  const NodeList* read(json::PaddedView text);
  // The list of names that were read in another way, and its text. Valid until the next call.
  const NodeList* write(std::span<const std::string_view> names, json::PaddedBuffer& text);

 private:
  static constexpr std::size_t kRemembered = 3;

  struct Known {
    std::string text;
    std::uint64_t generation = 0;
    std::uint64_t used = 0;  // when, in calls
    NodeList list;
  };

  bool read_into(json::PaddedView text, NodeList& list);
  bool read_names(json::PaddedView text, NodeList& list) const;
  bool read_runs(json::PaddedView text, NodeList& list) const;

  const NodeIndex& index_;
  KnownOrder order_;
  std::uint64_t order_generation_ = 0;
  std::uint64_t order_learnt_ = 0;  // when, in calls
  std::array<Known, kRemembered> known_;
  NodeList written_;
  std::uint64_t calls_ = 0;
};

}  // namespace tessera::extender
