// objects/label_hashes.h
//
// The labels of an object in eight bytes each, for those who only ask whether a selector holds and keep very
// many objects: hashes of the key and of key and value. Two different labels have the same hash once in four
// billion comparisons.
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
