// extender/node_index.h
//
// Maps the name of a node to its ID in the ledger. Optimized for speed, because a call of
// kube-scheduler contains thousands of names.
//
// A flat hash table points to consecutive records, each with ID and name. A lookup touches two
// cache lines and allocates nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "alloc/node_state.h"

namespace tessera::extender {

// The ID of a name that the index does not have.
inline constexpr alloc::NodeId kUnknownNode{0xFFFF'FFFF};

class NodeIndex {
 public:
  // Adds the name, or changes its ID.
  void put(std::string_view name, alloc::NodeId id);
  void erase(std::string_view name);

  // Returns kUnknownNode if there is no such name.
  [[nodiscard]] alloc::NodeId find(std::string_view name) const;
  // Like find(), for a name that is followed by json::kPadding readable bytes.
  [[nodiscard]] alloc::NodeId find_padded(std::string_view name) const;
  // Like find(), for many names. Name i is between quotes 2i and 2i+1 of `text`, and ids[i] gets
  // its ID. Returns the number of unknown names. `text` must be followed by json::kPadding readable
  // bytes.
  //
  // Hashes a batch of names, then prefetches, then compares, so that memory accesses overlap.
  std::size_t find_all(const char* text, std::span<const std::uint32_t> quotes,
                       std::span<alloc::NodeId> ids) const;

  [[nodiscard]] std::size_t size() const { return count_; }
  // Increases whenever a name is added, is removed or gets another ID.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }

 private:
  static constexpr std::uint32_t kEmpty = 0xFFFF'FFFF;

  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t record = kEmpty;  // index of its first word in words_
  };

  [[nodiscard]] std::size_t slot_of(std::string_view name, std::uint32_t hash) const;
  void drop_slot(std::size_t slot);
  void rebuild(std::size_t slots);

  // A record: ID and length in one word, then the name, padded with zeros.
  std::vector<std::uint64_t> words_;
  std::vector<Slot> table_;  // open addressing; the size is a power of two; at most half full
  std::size_t count_ = 0;
  std::size_t words_used_ = 0;  // words of existing names; the others are of removed names
  std::uint64_t generation_ = 0;
};

}  // namespace tessera::extender
