// extender/node_list.h
//
// The nodes of a call: thousands of quoted names, "a","b","c", read into ids of the ledger.
//
// kube-scheduler sends the same names again and again, and what differs is how they are shuffled: its threads
// look at nodes in runs, and those that failed are missing. So each name is first compared with the one that
// came after its predecessor last time, which nearly always hits and needs no hash; a list that is byte for
// byte one of the last few (prioritize after filter) is not read at all. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "extender/node_index.h"
#include "json/padded_buffer.h"

namespace tessera::extender {

class NodeList {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  // In the order of the list; kUnknownNode for names that the index does not have.
  [[nodiscard]] std::span<const alloc::NodeId> ids() const { return {ids_.data(), size_}; }
  [[nodiscard]] std::size_t unknown() const { return unknown_; }
  // Some unknown name holds escapes or bytes beyond ASCII: what stands in the text need not be the name.
  [[nodiscard]] bool odd() const { return odd_; }

  // Elements lo..hi-1 as they stand in `text`, which must be what the list was read from.
  [[nodiscard]] std::string_view quoted(std::string_view text, std::size_t lo, std::size_t hi) const {
    return text.substr(starts_[lo], starts_[hi] - 1 - starts_[lo]);
  }

 private:
  friend class NodeLists;
  void add(std::size_t start, alloc::NodeId id);

  std::vector<std::uint32_t> starts_;  // where each begins, and one past the end for the next after the last
  std::vector<alloc::NodeId> ids_;     // both longer than size_: grown once, then used again
  std::size_t size_ = 0;
  std::size_t unknown_ = 0;
  bool odd_ = false;
};

class NodeLists {
 public:
  // Refers to the index, which must live longer.
  explicit NodeLists(const NodeIndex& index) : index_(index) {}

  // The list, valid until the next call; null when the text is not names in quotes with a comma between.
  const NodeList* read(json::PaddedView text);

 private:
  static constexpr std::size_t kRemembered = 3;

  struct Known {
    std::string text;
    std::uint64_t generation = 0;
    std::uint64_t used = 0;  // when, in calls
    NodeList list;
  };

  bool read_into(std::string_view text, NodeList& list);

  const NodeIndex& index_;
  std::array<Known, kRemembered> known_;
  std::vector<alloc::NodeId> next_;  // by node: who came after it last time
  std::uint64_t calls_ = 0;
};

}  // namespace tessera::extender
