#include "extender/node_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "json/padded_buffer.h"

namespace tessera::extender {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kMinSlots = 64;
constexpr std::size_t kSlotsPerName = 2;

std::size_t words_of(std::size_t name_size) {
  return 1 + (name_size + kWord - 1) / kWord;
}

std::uint64_t head_of(alloc::NodeId id, std::size_t name_size) {
  return std::uint64_t{raw(id)} << 32U | name_size;
}
alloc::NodeId id_of(std::uint64_t head) {
  return alloc::NodeId{static_cast<std::uint32_t>(head >> 32U)};
}
std::size_t size_of(std::uint64_t head) {
  return static_cast<std::uint32_t>(head);
}

std::uint64_t word_at(const char* text) {
  std::uint64_t word = 0;
  std::memcpy(&word, text, kWord);
  return word;
}

// Returns the last word of a name: `size` bytes (1 to 8), then zeros. All supported platforms are
// little-endian.
std::uint64_t last_word_at(const char* text, std::size_t size) {
  return word_at(text) & ~std::uint64_t{0} >> (kWord - size) * 8;
}

bool is_record_of(const std::uint64_t* record, std::string_view name) {
  if (size_of(record[0]) != name.size() || name.empty()) {
    return size_of(record[0]) == name.size();
  }
  const char* text = name.data();
  std::size_t left = name.size();
  std::uint64_t difference = 0;
  for (++record; left > kWord; left -= kWord, text += kWord, ++record) {
    difference |= word_at(text) ^ *record;
  }
  return (difference | (last_word_at(text, left) ^ *record)) == 0;
}

// `name` must be followed by json::kPadding readable bytes.
std::uint32_t hash_of(std::string_view name) {
  constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15U;
  std::uint64_t hash = name.size();
  const char* text = name.data();
  std::size_t left = name.size();
  for (; left > kWord; left -= kWord, text += kWord) {
    hash = (hash ^ word_at(text)) * kOdd;
    hash ^= hash >> 29U;
  }
  hash = (hash ^ (left == 0 ? 0 : last_word_at(text, left))) * kOdd;
  return static_cast<std::uint32_t>(hash >> 32U);
}

// Returns the name between quotes 2i and 2i+1.
std::string_view name_at(const char* text, std::span<const std::uint32_t> quotes, std::size_t i) {
  const std::uint32_t open = quotes.data()[2 * i];
  return {text + open + 1, quotes.data()[2 * i + 1] - open - 1};
}

}  // namespace

// Returns the slot of the name, or the empty slot for it if the index does not have it.
inline std::size_t NodeIndex::slot_of(std::string_view name, std::uint32_t hash) const {
  const Slot* table = table_.data();
  const std::uint64_t* words = words_.data();
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = hash & mask;
  while (table[slot].record != kEmpty &&
         (table[slot].hash != hash || !is_record_of(words + table[slot].record, name))) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

alloc::NodeId NodeIndex::find(std::string_view name) const {
  json::PaddedBuffer padded(name);
  return find_padded(padded.view().text());
}

alloc::NodeId NodeIndex::find_padded(std::string_view name) const {
  const std::uint32_t record = table_.empty() ? kEmpty : table_[slot_of(name, hash_of(name))].record;
  return record == kEmpty ? kUnknownNode : id_of(words_[record]);
}

std::size_t NodeIndex::find_all(const char* text, std::span<const std::uint32_t> quotes,
                                std::span<alloc::NodeId> ids) const {
  if (table_.empty()) {
    std::ranges::fill(ids, kUnknownNode);
    return ids.size();
  }
  constexpr std::size_t kAtOnce = 64;
  const Slot* table = table_.data();
  const std::uint64_t* words = words_.data();
  const std::size_t mask = table_.size() - 1;
  std::array<std::uint32_t, kAtOnce> hashes{};
  std::size_t unknown = 0;
  for (std::size_t begin = 0; begin < ids.size(); begin += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, ids.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      hashes.data()[i] = hash_of(name_at(text, quotes, begin + i));
      __builtin_prefetch(table + (hashes.data()[i] & mask));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t record = table[hashes.data()[i] & mask].record;
      __builtin_prefetch(words + (record == kEmpty ? 0 : record));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t record = table[slot_of(name_at(text, quotes, begin + i), hashes.data()[i])].record;
      const alloc::NodeId id = record == kEmpty ? kUnknownNode : id_of(words[record]);
      ids.data()[begin + i] = id;
      unknown += id == kUnknownNode ? 1 : 0;
    }
  }
  return unknown;
}

void NodeIndex::put(std::string_view name, alloc::NodeId id) {
  if (table_.size() < kSlotsPerName * (count_ + 1)) {
    rebuild(std::max(kMinSlots, table_.size() * 2));
  }
  json::PaddedBuffer padded(name);
  const std::string_view key = padded.view().text();
  const std::uint32_t hash = hash_of(key);
  Slot& slot = table_[slot_of(key, hash)];
  if (slot.record != kEmpty) {
    if (id_of(words_[slot.record]) != id) {
      words_[slot.record] = head_of(id, name.size());
      ++generation_;
    }
    return;
  }
  slot = {.hash = hash, .record = static_cast<std::uint32_t>(words_.size())};
  words_.resize(words_.size() + words_of(name.size()));
  words_[slot.record] = head_of(id, name.size());
  if (!name.empty()) {
    std::memcpy(words_.data() + slot.record + 1, name.data(), name.size());
  }
  words_used_ += words_of(name.size());
  ++count_;
  ++generation_;
}

void NodeIndex::erase(std::string_view name) {
  if (table_.empty()) {
    return;
  }
  json::PaddedBuffer padded(name);
  const std::string_view key = padded.view().text();
  const std::size_t slot = slot_of(key, hash_of(key));
  if (table_[slot].record == kEmpty) {
    return;
  }
  drop_slot(slot);
  words_used_ -= words_of(name.size());
  --count_;
  ++generation_;
  if (words_.size() > 1024 && words_used_ * 2 < words_.size()) {
    rebuild(table_.size());
  }
}

// Empties the slot and moves later entries back, so that no lookup stops at the gap too early.
void NodeIndex::drop_slot(std::size_t slot) {
  const std::size_t mask = table_.size() - 1;
  for (std::size_t next = (slot + 1) & mask; table_[next].record != kEmpty; next = (next + 1) & mask) {
    // An entry may move back unless its home slot is after the gap.
    const std::size_t home = table_[next].hash & mask;
    if (((next - home) & mask) >= ((next - slot) & mask)) {
      table_[slot] = table_[next];
      slot = next;
    }
  }
  table_[slot] = {};
}

void NodeIndex::rebuild(std::size_t slots) {
  const std::vector<Slot> before = std::exchange(table_, std::vector<Slot>(slots));
  std::vector<std::uint64_t> words;
  words.reserve(words_used_);
  for (const Slot& entry : before) {
    if (entry.record == kEmpty) {
      continue;
    }
    std::size_t slot = entry.hash & (slots - 1);
    while (table_[slot].record != kEmpty) {
      slot = (slot + 1) & (slots - 1);
    }
    table_[slot] = {.hash = entry.hash, .record = static_cast<std::uint32_t>(words.size())};
    const auto begin = words_.begin() + entry.record;
    words.insert(words.end(), begin,
                 begin + static_cast<std::ptrdiff_t>(words_of(size_of(words_[entry.record]))));
  }
  words_ = std::move(words);
}

}  // namespace tessera::extender
