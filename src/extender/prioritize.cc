// How good each node is, as kube-scheduler wants to hear it.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "extender/block_writer.h"
#include "extender/decisions.h"

namespace tessera::extender {

namespace {

// What stands between two names, the first of which has that score: ,"Score":256},{"Host":
struct Between {
  std::array<char, 64> text{};  // longer than it can be: a BlockWriter reads past it
  std::size_t size = 0;
};

constexpr std::string_view kNextHost = R"(,{"Host":)";

Between between(std::int64_t score) {
  Between made;
  const auto end =
      fmt::format_to_n(made.text.data(), made.text.size(), R"(,"Score":{}}}{})", score, kNextHost);
  made.size = end.size;
  return made;
}

}  // namespace

void Decisions::prioritize(const NodeArgs& args, std::int64_t step, std::string& out) {
  const WaitingPod pod = books_.waiting_pod(args.pod);
  const std::span<const alloc::NodeId> known = known_of(*args.nodes);
  scores_.assign(known.size(), alloc::kDoesNotFit);
  if (pod.request) {
    if (books_.policy_changes() != policy_changes_) {
      policy_changes_ = books_.policy_changes();
      memory_.forget();
    }
    memory_.score(books_.ledger(), books_.placer(), *pod.request, known, scores_);
  }
  // Ranks instead of scores: only their order has a meaning, and their differences would drown everything
  // else that kube-scheduler weighs. 0 is for nodes that have become full, whether there are any or not.
  scores_.push_back(alloc::kDoesNotFit);
  const std::span<const std::uint32_t> ranks = ranks_.of(scores_);
  std::vector<Between> tails(ranks_.distinct());
  for (std::size_t rank = 0; rank < tails.size(); ++rank) {
    tails[rank] = between(static_cast<std::int64_t>(rank) * step);
  }

  if (args.size() == 0) {
    out += "[]";
    return;
  }
  out += '[';
  out += kNextHost.substr(1);
  {
    BlockWriter writer(out);
    const std::span<const alloc::NodeId> ids = args.nodes->ids();
    std::size_t next = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Between& tail = tails[ids[i] == kUnknownNode ? 0 : ranks[next++]];
      writer.put(args.quoted(i, i + 1));
      writer.put({tail.text.data(), tail.size});
    }
  }
  out.resize(out.size() - kNextHost.size());
  out += ']';
}

}  // namespace tessera::extender
