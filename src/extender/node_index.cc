#include "extender/node_index.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tessera::extender {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kFewestSlots = 64;

// A word, of which only the first `size` bytes count where fewer are left. Bytes are numbered from the low
// end, as on every machine this is built for.
std::uint64_t word_at(const char* text, std::size_t size) {
  std::uint64_t word = 0;
  std::memcpy(&word, text, kWord);
  return size >= kWord ? word : word & ((std::uint64_t{1} << (size * 8)) - 1);
}

std::uint32_t hash_padded(std::string_view name) {
  std::uint64_t hash = name.size();
  for (std::size_t i = 0; i < name.size(); i += kWord) {
    hash = (hash ^ word_at(name.data() + i, name.size() - i)) * 0x9E37'79B9'7F4A'7C15U;
    hash ^= hash >> 32U;
  }
  return static_cast<std::uint32_t>(hash * 0xD6E8'FEB8'6659'FD93U >> 32U);
}

}  // namespace

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; });
}

bool equal_padded(const char* a, const char* b, std::size_t size) {
  std::uint64_t difference = 0;
  for (std::size_t i = 0; i < size; i += kWord) {
    difference |= word_at(a + i, size - i) ^ word_at(b + i, size - i);
  }
  return difference == 0;
}

// Where the name is, or the empty slot where it would be.
std::size_t NodeIndex::slot_of(std::string_view name, std::uint32_t hash) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = hash & mask;
  while (table_[slot].id != kUnknownNode) {
    if (table_[slot].hash == hash) {
      const std::string_view known = quoted(table_[slot].id);
      if (known.size() == name.size() + 2 && equal_padded(known.data() + 1, name.data(), name.size())) {
        return slot;
      }
    }
    slot = (slot + 1) & mask;
  }
  return slot;
}

alloc::NodeId NodeIndex::find_padded(std::string_view name) const {
  return table_.empty() ? kUnknownNode : table_[slot_of(name, hash_padded(name))].id;
}

void NodeIndex::put(std::string_view name, alloc::NodeId id) {
  if (!is_plain(name)) {
    return;
  }
  if (table_.size() < 2 * (count_ + 1)) {
    rebuild(std::max(kFewestSlots, table_.size() * 2));
  }
  json::PaddedBuffer padded(name);
  const std::string_view key = padded.view().text();
  const std::uint32_t hash = hash_padded(key);
  const std::size_t slot = slot_of(key, hash);
  if (table_[slot].id == id) {
    return;
  }
  ++generation_;
  if (table_[slot].id != kUnknownNode) {
    // The node went and came back as another one.
    erase(name);
    put(name, id);
    return;
  }
  places_.resize(std::max<std::size_t>(places_.size(), raw(id) + std::size_t{1}));
  places_[raw(id)] = {.offset = static_cast<std::uint32_t>(names_.size()),
                      .size = static_cast<std::uint32_t>(name.size() + 2)};
  names_.append("\"");
  names_.append(name);
  names_.append("\"");
  used_bytes_ += name.size() + 2;
  table_[slot] = {.hash = hash, .id = id};
  ++count_;
}

void NodeIndex::erase(std::string_view name) {
  if (table_.empty()) {
    return;
  }
  json::PaddedBuffer padded(name);
  const std::string_view key = padded.view().text();
  const std::size_t slot = slot_of(key, hash_padded(key));
  const alloc::NodeId id = table_[slot].id;
  if (id == kUnknownNode) {
    return;
  }
  ++generation_;
  used_bytes_ -= places_[raw(id)].size;
  drop_slot(slot);
  places_[raw(id)] = {};
  --count_;
  if (names_.size() > 4096 && used_bytes_ * 2 < names_.size()) {
    rebuild(table_.size());
  }
}

// Closes the gap, so that no look-up stops at it too early.
void NodeIndex::drop_slot(std::size_t slot) {
  const std::size_t mask = table_.size() - 1;
  std::size_t next = slot;
  while (true) {
    next = (next + 1) & mask;
    if (table_[next].id == kUnknownNode) {
      break;
    }
    const std::size_t home = table_[next].hash & mask;
    // An entry may move back unless its home lies behind the gap.
    if (((next - home) & mask) >= ((next - slot) & mask)) {
      table_[slot] = table_[next];
      slot = next;
    }
  }
  table_[slot] = {};
}

void NodeIndex::rebuild(std::size_t slots) {
  const std::vector<Slot> before = std::exchange(table_, std::vector<Slot>(slots));
  json::PaddedBuffer names;
  for (const Slot& entry : before) {
    if (entry.id == kUnknownNode) {
      continue;
    }
    Place& place = places_[raw(entry.id)];
    const auto offset = static_cast<std::uint32_t>(names.size());
    names.append(quoted(entry.id));
    place.offset = offset;
    std::size_t slot = entry.hash & (slots - 1);
    while (table_[slot].id != kUnknownNode) {
      slot = (slot + 1) & (slots - 1);
    }
    table_[slot] = entry;
  }
  names_ = std::move(names);
}

}  // namespace tessera::extender
