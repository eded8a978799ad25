// extender/node_index.h
//
// From the name of a node to its id in the ledger, fast: thousands of names come with every call.
//
// Names stand one after the other as JSON has them, with their quotes, and a flat table leads to them: a
// look-up touches one slot and the name itself, and allocates nothing. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "alloc/node_state.h"
#include "json/padded_buffer.h"

namespace tessera::extender {

// The id of nobody.
inline constexpr alloc::NodeId kUnknownNode{0xFFFF'FFFF};

// Whether the text stands in JSON as it is. Names of nodes do: they are DNS names.
bool is_plain(std::string_view text);

// Whether `size` bytes are equal. Behind both are json::kPadding bytes that may be read.
bool equal_padded(const char* a, const char* b, std::size_t size);

class NodeIndex {
 public:
  // `id` is the node of that name from now on. A name that is not plain is not kept: no API server has it.
  void put(std::string_view name, alloc::NodeId id);
  void erase(std::string_view name);

  // `name` has json::kPadding readable bytes behind it. kUnknownNode: nobody.
  [[nodiscard]] alloc::NodeId find_padded(std::string_view name) const;

  // The node's name in quotes, padded; empty for an id that is not here.
  [[nodiscard]] std::string_view quoted(alloc::NodeId id) const {
    if (raw(id) >= places_.size()) {
      return {};
    }
    const Place& place = places_[raw(id)];
    return {names_.text().data() + place.offset, place.size};
  }

  [[nodiscard]] std::size_t size() const { return count_; }
  // Another number whenever a name comes, goes or gets another id.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    alloc::NodeId id = kUnknownNode;
  };
  struct Place {
    std::uint32_t offset = 0;
    std::uint32_t size = 0;  // with quotes; 0: no such node
  };

  [[nodiscard]] std::size_t slot_of(std::string_view name, std::uint32_t hash) const;
  void drop_slot(std::size_t slot);
  void rebuild(std::size_t slots);

  json::PaddedBuffer names_;
  std::vector<Slot> table_;    // open addressing, a power of two, at most half full
  std::vector<Place> places_;  // by NodeId
  std::size_t count_ = 0;
  std::size_t used_bytes_ = 0;  // of names_; the rest belonged to nodes that are gone
  std::uint64_t generation_ = 0;
};

}  // namespace tessera::extender
