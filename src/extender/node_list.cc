#include "extender/node_list.h"

#include <algorithm>
#include <cstring>

namespace tessera::extender {

namespace {

// Where the string that begins at `at` ends, behind its closing quote; npos if it does not.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const std::size_t quote = text.find('"', at + 1);
  if (quote == std::string_view::npos || text[quote - 1] != '\\') {
    return quote == std::string_view::npos ? quote : quote + 1;
  }
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

}  // namespace

inline void NodeList::add(std::size_t start, alloc::NodeId id) {
  if (size_ == ids_.size()) {
    ids_.resize(std::max<std::size_t>(256, size_ * 2));
    starts_.resize(ids_.size() + 1);
  }
  starts_[size_] = static_cast<std::uint32_t>(start);
  ids_[size_++] = id;
}

const NodeList* NodeLists::read(json::PaddedView text) {
  ++calls_;
  Known* oldest = &known_.front();
  for (Known& known : known_) {
    if (known.used != 0 && known.text == text.text() && known.generation == index_.generation()) {
      known.used = calls_;
      return &known.list;
    }
    oldest = known.used < oldest->used ? &known : oldest;
  }
  if (!read_into(text.text(), oldest->list)) {
    oldest->used = 0;
    return nullptr;
  }
  oldest->text.assign(text.text());
  oldest->generation = index_.generation();
  oldest->used = calls_;
  return &oldest->list;
}

bool NodeLists::read_into(std::string_view text, NodeList& list) {
  list.size_ = 0;
  list.unknown_ = 0;
  list.odd_ = false;
  if (text.empty()) {
    return true;
  }
  alloc::NodeId last = kUnknownNode;
  std::size_t at = 0;
  while (true) {
    const std::size_t start = at;
    alloc::NodeId id = raw(last) < next_.size() ? next_[raw(last)] : kUnknownNode;
    const std::string_view expected = index_.quoted(id);
    if (!expected.empty() && expected.size() <= text.size() - at &&
        equal_padded(expected.data(), text.data() + at, expected.size())) {
      at += expected.size();
    } else {
      if (text[at] != '"') {
        return false;
      }
      at = end_of_string(text, at);
      if (at == std::string_view::npos) {
        return false;
      }
      const std::string_view name = text.substr(start + 1, at - start - 2);
      id = index_.find_padded(name);
      if (id == kUnknownNode) {
        ++list.unknown_;
        list.odd_ = list.odd_ || !is_plain(name);
      } else if (last != kUnknownNode) {
        if (raw(last) >= next_.size()) {
          next_.resize(raw(last) + std::size_t{1}, kUnknownNode);
        }
        next_[raw(last)] = id;
      }
    }
    list.add(start, id);
    last = id == kUnknownNode ? last : id;
    if (at == text.size()) {
      break;
    }
    if (text[at] != ',' || ++at == text.size()) {
      return false;
    }
  }
  list.starts_[list.size_] = static_cast<std::uint32_t>(text.size() + 1);
  return true;
}

}  // namespace tessera::extender
