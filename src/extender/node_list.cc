#include "extender/node_list.h"

#include "extender/quote_scan.h"
#include "json/escape.h"

namespace tessera::extender {

const NodeList* NodeLists::read(json::PaddedView text) {
  ++calls_;
  Known* oldest = &known_.front();
  for (Known& known : known_) {
    if (known.used != 0 && known.generation == index_.generation() && known.text == text.text()) {
      known.used = calls_;
      return &known.list;
    }
    oldest = known.used < oldest->used ? &known : oldest;
  }
  if (!read_into(text, oldest->list)) {
    oldest->used = 0;
    return nullptr;
  }
  oldest->text.assign(text.text());
  oldest->generation = index_.generation();
  oldest->used = calls_;
  return &oldest->list;
}

bool NodeLists::read_into(json::PaddedView text, NodeList& list) {
  bool odd = false;
  const std::size_t quotes = find_quotes(text, list.quotes_, odd);
  const std::size_t count = quotes / 2;
  list.ids_.resize(count);
  list.unknown_ = 0;
  if (odd || quotes % 2 != 0 || count == 0) {
    return text.empty();
  }
  const std::uint32_t* at = list.quotes_.data();
  hashes_.resize(count);
  std::uint32_t* hashes = hashes_.data();
  bool well_formed = at[0] == 0 && at[quotes - 1] + 1 == text.size();
  for (std::size_t i = 0; i < count; ++i) {
    const char* name = text.data() + at[2 * i] + 1;
    const std::size_t size = at[2 * i + 1] - at[2 * i] - 1;
    hashes[i] = NodeIndex::hash_padded({name, size});
    // Between two names there is a comma and nothing else.
    const bool joined = i + 1 == count || (at[2 * i + 2] == at[2 * i + 1] + 2 && name[size + 1] == ',');
    well_formed = well_formed && joined;
  }
  if (!well_formed) {
    return false;
  }
  alloc::NodeId* ids = list.ids_.data();
  for (std::size_t i = 0; i < count; ++i) {
    const char* name = text.data() + at[2 * i] + 1;
    ids[i] = index_.find_padded({name, at[2 * i + 1] - at[2 * i] - 1}, hashes[i]);
    list.unknown_ += ids[i] == kUnknownNode ? 1 : 0;
  }
  return true;
}

const NodeList* NodeLists::write(std::span<const std::string_view> names, json::PaddedBuffer& text) {
  text.clear();
  written_.quotes_.clear();
  written_.ids_.clear();
  written_.unknown_ = 0;
  std::string quoted;
  for (const std::string_view name : names) {
    quoted.assign(written_.ids_.empty() ? "" : ",");
    const std::size_t begin = text.size() + quoted.size();
    json::append_quoted(quoted, name);
    text.append(quoted);
    written_.quotes_.push_back(static_cast<std::uint32_t>(begin));
    written_.quotes_.push_back(static_cast<std::uint32_t>(text.size() - 1));
    json::PaddedBuffer padded(name);
    const std::string_view key = padded.view().text();
    const alloc::NodeId id = index_.find_padded(key, NodeIndex::hash_padded(key));
    written_.ids_.push_back(id);
    written_.unknown_ += id == kUnknownNode ? 1 : 0;
  }
  return &written_;
}

}  // namespace tessera::extender
