#include "objects/label_hashes.h"

#include <functional>

namespace tessera::objects {

LabelHash hash_of_label(std::string_view key, std::string_view value) {
  constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15U;
  const std::uint64_t of_key = std::hash<std::string_view>()(key);
  const std::uint64_t of_both = (of_key * kOdd) ^ std::hash<std::string_view>()(value);
  return {.key = static_cast<std::uint32_t>(of_key >> 32U),
          .label = static_cast<std::uint32_t>(of_both * kOdd >> 32U)};
}

}  // namespace tessera::objects
