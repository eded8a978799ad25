#include "extender/node_list.h"

#include <algorithm>

#include "extender/quote_scan.h"
#include "json/escape.h"

namespace tessera::extender {

namespace {

// Looking up names one at a time costs twice as much as in a batch. So reading runs is worthwhile
// only if they are at least this long on average. The first kTrialRuns runs decide.
constexpr std::size_t kMinNamesPerRun = 4;
constexpr std::size_t kTrialRuns = 24;
// If a list does not consist of runs of the known order, it becomes the new order only if the order
// is at least kLearnEvery calls old.
constexpr std::uint64_t kLearnEvery = 16;

}  // namespace

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
  if (!parse(text, oldest->list)) {
    oldest->used = 0;
    return nullptr;
  }
  oldest->text.assign(text.text());
  oldest->generation = index_.generation();
  oldest->used = calls_;
  return &oldest->list;
}

bool NodeLists::parse(json::PaddedView text, NodeList& list) {
  const bool order_valid = order_generation_ == index_.generation();
  if (order_valid && order_.size() > 0 && parse_runs(text, list)) {
    // Learn only a longer list, because it matches more of later requests.
    if (list.size() <= order_.size()) {
      return true;
    }
  } else {
    if (!parse_names(text, list)) {
      return false;
    }
    if (order_valid && order_.size() > 0 && calls_ - order_learned_ < kLearnEvery) {
      return true;
    }
  }
  order_.learn(text, {list.quotes_.data(), 2 * list.size()}, list.ids_);
  order_generation_ = index_.generation();
  order_learned_ = calls_;
  return true;
}

// Finds all names, then looks them up together.
bool NodeLists::parse_names(json::PaddedView text, NodeList& list) const {
  bool odd = false;
  const std::size_t quotes = find_quotes(text, list.quotes_, odd);
  const std::size_t count = quotes / 2;
  list.ids_.resize(count);
  list.unknown_ = 0;
  if (odd || quotes % 2 != 0 || count == 0) {
    return text.empty();
  }
  const std::uint32_t* at = list.quotes_.data();
  // Between two names there must be a comma and nothing else.
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

// Reads runs of the known order. Returns false if the runs are too short, or if the text is not a
// list of names.
bool NodeLists::parse_runs(json::PaddedView text, NodeList& list) const {
  list.ids_.clear();
  std::size_t runs = 0;
  std::size_t at = 0;
  while (true) {
    // Look up the first name of the run. The others are copied from the known order.
    const std::size_t end = end_of_name(text, at);
    if (end == 0 || (++runs >= kTrialRuns && list.size() < kMinNamesPerRun * runs)) {
      return false;
    }
    const std::size_t first = list.size();
    const alloc::NodeId node = index_.find_padded(text.text().substr(at + 1, end - at - 1));
    KnownOrder::Run run;
    if (text.size() - end > 2 && text.data()[end + 1] == ',') {
      run = order_.run_after(node, text.part(end + 2, text.size() - end - 2));
    }
    if (list.quotes_.size() < 2 * (first + 1 + run.count)) {
      list.quotes_.resize(std::max<std::size_t>(1024, 4 * (first + 1 + run.count)));
    }
    std::uint32_t* quotes = list.quotes_.data() + 2 * first;
    quotes[0] = static_cast<std::uint32_t>(at);
    quotes[1] = static_cast<std::uint32_t>(end);
    list.ids_.push_back(node);
    // Relative to each other, the quotes of the others are as in the known text.
    const std::span<const std::uint32_t> known = order_.quotes().subspan(2 * run.place, 2 * run.count);
    const std::uint32_t moved = static_cast<std::uint32_t>(end) + 2 - (known.empty() ? 0 : known.front());
    for (std::size_t i = 0; i < known.size(); ++i) {
      quotes[2 + i] = known.data()[i] + moved;
    }
    const auto ids = order_.ids().subspan(run.place, run.count);
    list.ids_.insert(list.ids_.end(), ids.begin(), ids.end());
    at = quotes[2 * run.count + 1] + std::size_t{1};
    if (at == text.size()) {
      break;
    }
    if (text.data()[at++] != ',') {
      return false;
    }
  }
  list.unknown_ = static_cast<std::size_t>(std::ranges::count(list.ids_, kUnknownNode));
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
