// Writes the scores of nodes in the format of kube-scheduler.
#include <fmt/format.h>

#include <string_view>

#include "extender/block_writer.h"
#include "extender/decisions.h"

namespace tessera::extender {

namespace {

constexpr std::string_view kNextHost = R"(,{"Host":)";

}  // namespace

Decisions::Tail Decisions::tail_of(std::int64_t score) {
  Tail tail;
  tail.size =
      fmt::format_to_n(tail.text.data(), tail.text.size(), R"(,"Score":{}}}{})", score, kNextHost).size;
  return tail;
}

void Decisions::prioritize(const NodeArgs& args, std::int64_t step, std::string& out) {
  const WaitingPod pod = state_.waiting_pod(args.pod);
  RankCache::NodeRanks node_ranks;
  if (pod.request) {
    node_ranks = ranks_of(*pod.request);
  }
  // Send ranks instead of the placer's scores: only the order of those scores has a meaning, and
  // their differences would outweigh everything else that kube-scheduler considers. Nodes that no
  // longer fit get 0.
  if (step != tail_step_) {
    tail_step_ = step;
    tails_.clear();
  }
  while (tails_.size() <= node_ranks.best) {
    tails_.push_back(tail_of(static_cast<std::int64_t>(tails_.size()) * step));
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
    const std::span<const std::uint32_t> ranks = node_ranks.ranks;
    const Tail* tails = tails_.data();  // there is one for every rank
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::uint32_t node = raw(ids.data()[i]);
      const Tail& tail = tails[node < ranks.size() ? ranks.data()[node] : 0];
      writer.put(args.quoted(i, i + 1));
      writer.put({tail.text.data(), tail.size});
    }
  }
  out.resize(out.size() - kNextHost.size());
  out += ']';
}

}  // namespace tessera::extender
