#include "extender/node_finder.h"

#include <optional>

namespace tessera::extender {

NodeFinder::Found NodeFinder::find(std::span<const std::string_view> names) {
  known_.clear();
  unknown_.clear();
  const std::size_t count = ledger_->states().size();
  // A guess may be wrong but must be a node: 0 is one whenever there are any.
  next_.resize(count);
  alloc::NodeId guess{};
  std::size_t last = count;  // whose successor we look for; `count`: nobody's
  for (std::size_t i = 0; i < names.size(); ++i) {
    alloc::NodeId node = guess;
    if (count == 0 || raw(guess) >= count || ledger_->node_name(guess) != names[i]) {
      const std::optional<alloc::NodeId> found = ledger_->find_node(names[i]);
      if (!found) {
        unknown_.push_back(i);
        continue;
      }
      node = *found;
      if (last < count) {
        next_[last] = node;
      }
    }
    known_.push_back(node);
    last = raw(node);
    guess = next_[last];
  }
  return {.known = known_, .unknown = unknown_};
}

}  // namespace tessera::extender
