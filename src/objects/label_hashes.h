// objects/label_hashes.h
//
// A label as two 32-bit hashes: one of the key, one of key and value. For programs that keep many
// objects in memory and use labels only to match selectors. Two different labels have the same hash
// with a probability of one in four billion.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera::objects {

struct LabelHash {
  std::uint32_t key = 0;
  std::uint32_t label = 0;  // key and value

  friend bool operator==(const LabelHash&, const LabelHash&) = default;
};

using LabelHashes = std::vector<LabelHash>;

LabelHash hash_of_label(std::string_view key, std::string_view value);

}  // namespace tessera::objects
