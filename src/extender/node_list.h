// extender/node_list.h
//
// The nodes of a request: thousands of quoted names, "a","b","c", and their IDs in the ledger.
//
// NodeLists has three ways to read a list, fastest first:
//   - A list that equals one of the last few, byte for byte, is not parsed again. Example: the list
//     of prioritize after a filter that all nodes passed.
//   - A list that consists of runs of a known list is read run by run (known_order.h).
//   - In any other list, NodeLists finds all names first and then looks them up together.
// Not thread-safe.
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
  // The IDs in the order of the list. kUnknownNode for names that the index does not have.
  [[nodiscard]] std::span<const alloc::NodeId> ids() const { return ids_; }
  // Number of names that the index does not have.
  [[nodiscard]] std::size_t unknown() const { return unknown_; }

  // Returns the part of `text` with names lo..hi-1. `text` must be the text of this list.
  [[nodiscard]] std::string_view quoted(std::string_view text, std::size_t lo, std::size_t hi) const {
    // Called for each of thousands of names, so there are no checks.
    const std::uint32_t* quotes = quotes_.data();
    const std::uint32_t begin = quotes[2 * lo];
    return {text.data() + begin, quotes[2 * hi - 1] + 1 - begin};
  }

 private:
  friend class NodeLists;

  // Positions of opening and closing quotes; may be longer than needed.
  std::vector<std::uint32_t> quotes_;
  std::vector<alloc::NodeId> ids_;
  std::size_t unknown_ = 0;
};

class NodeLists {
 public:
  // `index` must outlive this object.
  explicit NodeLists(const NodeIndex& index) : index_(index) {}

  // Returns the list, valid until the next call. Returns null if a JSON parser must read the text
  // instead. That is the case if `text` is not a list of quoted names separated by commas, or if a
  // name has escapes or non-ASCII bytes.
  const NodeList* read(json::PaddedView text);
  // Builds the list and its text from names that a JSON parser has read. The list is valid until
  // the next call.
  const NodeList* write(std::span<const std::string_view> names, json::PaddedBuffer& text);

 private:
  static constexpr std::size_t kRemembered = 3;

  struct Known {
    std::string text;
    std::uint64_t generation = 0;
    std::uint64_t used = 0;  // calls_ at the last use; 0 if this entry is empty
    NodeList list;
  };

  bool parse(json::PaddedView text, NodeList& list);
  bool parse_names(json::PaddedView text, NodeList& list) const;
  bool parse_runs(json::PaddedView text, NodeList& list) const;

  const NodeIndex& index_;
  KnownOrder order_;
  std::uint64_t order_generation_ = 0;
  std::uint64_t order_learned_ = 0;  // calls_ when order_ was learned
  std::array<Known, kRemembered> known_;
  NodeList written_;
  std::uint64_t calls_ = 0;
};

}  // namespace tessera::extender
