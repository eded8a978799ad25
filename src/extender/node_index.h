// extender/node_index.h
//
// From the name of a node to its id in the ledger, fast: thousands of names come with every call.
//
// A flat table leads to records that stand one after the other, id and name together: a look-up touches two
// cache lines and allocates nothing. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "alloc/node_state.h"

namespace tessera::extender {

// The id of nobody.
inline constexpr alloc::NodeId kUnknownNode{0xFFFF'FFFF};

class NodeIndex {
 public:
  // `id` is the node of that name from now on.
  void put(std::string_view name, alloc::NodeId id);
  void erase(std::string_view name);

  // kUnknownNode: nobody.
  [[nodiscard]] alloc::NodeId find(std::string_view name) const;
  // The same for a name with json::kPadding readable bytes behind it.
  [[nodiscard]] alloc::NodeId find_padded(std::string_view name) const;
  // The same for many names, each between two of the `quotes` of a text: first hashed, then fetched, then
  // compared, so that memory is waited for once and not for each. Behind the text there are json::kPadding
  // readable bytes. Tells how many are unknown.
  std::size_t find_all(const char* text, std::span<const std::uint32_t> quotes,
                       std::span<alloc::NodeId> ids) const;

  [[nodiscard]] std::size_t size() const { return count_; }
  // Another number whenever a name comes, goes or gets another id.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }

 private:
  static constexpr std::uint32_t kEmpty = 0xFFFF'FFFF;

  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t record = kEmpty;  // where it begins in words_
  };

  [[nodiscard]] std::size_t slot_of(std::string_view name, std::uint32_t hash) const;
  void drop_slot(std::size_t slot);
  void rebuild(std::size_t slots);

  // A record: id and length in one word, then the name, filled up with zeros.
  std::vector<std::uint64_t> words_;
  std::vector<Slot> table_;  // open addressing, a power of two, at most half full
  std::size_t count_ = 0;
  std::size_t words_used_ = 0;  // the rest belonged to nodes that are gone
  std::uint64_t generation_ = 0;
};

}  // namespace tessera::extender
