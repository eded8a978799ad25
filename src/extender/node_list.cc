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
  // Between two names there is a comma and nothing else.
  bool well_formed = at[0] == 0 && at[quotes - 1] + 1 == text.size();
  for (std::size_t i = 2; i < quotes; i += 2) {
    well_formed = well_formed && at[i] == at[i - 1] + 2 && text.data()[at[i] - 1] == ',';
  }
  if (!well_formed) {
    return false;
  }
  list.unknown_ = index_.find_all(text.data(), {at, quotes}, list.ids_);
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
    const alloc::NodeId id = index_.find(name);
    written_.ids_.push_back(id);
    written_.unknown_ += id == kUnknownNode ? 1 : 0;
  }
  return &written_;
}

}  // namespace tessera::extender
