#include "extender/decisions.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "alloc/explain.h"
#include "alloc/reason.h"
#include "extender/block_writer.h"
#include "json/escape.h"
#include "kube/request.h"

namespace tessera::extender {

namespace {

// Space for the record that a bind writes and that the agent may correct later. It has about 10 KiB
// for the largest pods. The API server merges the annotations of a Binding into the pod without
// checking their size. If they are too large then, it rejects every later update of the pod.
constexpr std::size_t kRecordBytes = 16U << 10U;

// Returns whether the reason should name the command "tessera why". It can explain more only if
// eviction may help.
bool names_tessera_why(alloc::Reason reason) {
  return alloc::eviction_may_help(reason);
}

bool is_unresolvable(std::size_t reason) {
  return !alloc::eviction_may_help(static_cast<alloc::Reason>(reason));
}

// Returns the index of the first node from `i` on that does not fit. Most nodes usually fit, so it
// checks eight at once.
std::size_t end_of_fitting(std::span<const alloc::Reason> reasons, std::size_t i) {
  static_assert(static_cast<int>(alloc::Reason::kFits) == 0 && sizeof(alloc::Reason) == 1);
  std::uint64_t eight = 0;
  while (i + sizeof(eight) <= reasons.size()) {
    std::memcpy(&eight, reasons.data() + i, sizeof(eight));
    if (eight != 0) {
      break;
    }
    i += sizeof(eight);
  }
  while (i < reasons.size() && reasons[i] == alloc::Reason::kFits) {
    ++i;
  }
  return i;
}

// Returns the JSON of nodes lo..hi-1, with the commas between them.
std::string_view objects_of(const NodeArgs& args, std::size_t lo, std::size_t hi) {
  const char* begin = args.objects[lo].data();
  const char* end = args.objects[hi - 1].data() + args.objects[hi - 1].size();
  return {begin, static_cast<std::size_t>(end - begin)};
}

}  // namespace

Decisions::Decisions(ClusterState& state) : state_(state) {}

std::span<const alloc::NodeId> Decisions::known_of(const NodeList& list) {
  if (list.unknown() == 0) {
    return list.ids();
  }
  known_.clear();
  std::ranges::copy_if(list.ids(), std::back_inserter(known_),
                       [](alloc::NodeId id) { return id != kUnknownNode; });
  return known_;
}

std::string Decisions::phrase_of(std::size_t reason, const WaitingPod& pod) const {
  const auto known = static_cast<alloc::Reason>(reason);
  std::string text = alloc::phrase(known, *pod.request, state_.unit(), state_.names());
  if (names_tessera_why(known)) {
    text += fmt::format(" (tessera why pod/{} -n {})", pod.key.name, pod.key.namespace_name);
  }
  return text;
}

void Decisions::judge(const alloc::Request& request, const NodeArgs& args) {
  const std::span<const alloc::NodeId> ids = args.nodes->ids();
  reasons_.resize(ids.size());
  if (args.nodes->unknown() == 0) {
    state_.placer().filter(request, ids, reasons_);
  } else {
    const std::span<const alloc::NodeId> known = known_of(*args.nodes);
    known_reasons_.resize(known.size());
    state_.placer().filter(request, known, known_reasons_);
    auto next = known_reasons_.begin();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      reasons_[i] = ids[i] == kUnknownNode ? alloc::Reason::kUnknownNode : *next++;
    }
  }
}

Decisions::Counts Decisions::write_fitting(const NodeArgs& args, FilterSummary& summary,
                                           std::string& out) const {
  Counts counts{};
  out += args.names_only ? R"({"Nodes":null,"NodeNames":[)" : R"({"Nodes":{"metadata":{},"items":[)";
  {
    BlockWriter writer(out);
    for (std::size_t i = 0; i < reasons_.size();) {
      const std::size_t end = end_of_fitting(reasons_, i);
      if (end > i) {
        if (summary.fit > 0) {
          writer.put(',');
        }
        writer.put(args.names_only ? args.quoted(i, end) : objects_of(args, i, end));
        summary.fit += end - i;
      }
      for (i = end; i < reasons_.size() && reasons_[i] != alloc::Reason::kFits; ++i) {
        ++counts[static_cast<std::size_t>(reasons_[i])];
      }
    }
  }
  out += args.names_only ? "]" : R"(]},"NodeNames":null)";
  return counts;
}

void Decisions::write_failed(const NodeArgs& args, const WaitingPod& pod, const Counts& counts,
                             bool unresolvable, std::string& out) const {
  // The text after the name of a node, by reason. Empty for reasons that are not in this list.
  std::array<json::PaddedBuffer, alloc::kReasons> buffers;
  std::array<std::string_view, alloc::kReasons + 1> phrases;
  bool any = false;
  for (std::size_t reason = 0; reason < alloc::kReasons; ++reason) {
    if (counts[reason] > 0 && is_unresolvable(reason) == unresolvable) {
      std::string text = ":";
      json::append_quoted(text, phrase_of(reason, pod));
      buffers[reason].append(text + ",");
      phrases[reason] = buffers[reason].view().text();
      any = true;
    }
  }
  out += unresolvable ? R"(,"FailedAndUnresolvableNodes":{)" : R"(,"FailedNodes":{)";
  if (any) {
    {
      BlockWriter writer(out);
      for (std::size_t i = 0; i < reasons_.size(); ++i) {
        if (const std::string_view phrase = phrases[static_cast<std::size_t>(reasons_[i])]; !phrase.empty()) {
          writer.put(args.quoted(i, i + 1));
          writer.put(phrase);
        }
      }
    }
    out.pop_back();  // the comma after the last one
  }
  out += '}';
}

RankCache::NodeRanks Decisions::ranks_of(const alloc::Request& request) {
  if (state_.policy_changes() != policy_changes_) {
    policy_changes_ = state_.policy_changes();
    rank_cache_.clear();
  }
  return rank_cache_.ranks_of(state_.ledger(), state_.placer(), request);
}

void Decisions::keep_best(const alloc::Request& request, const NodeArgs& args, std::int64_t step) {
  const std::span<const alloc::NodeId> ids = args.nodes->ids();
  const std::span<const std::uint32_t> ranks = ranks_of(request).ranks;
  std::uint32_t best = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (reasons_[i] == alloc::Reason::kFits) {
      best = std::max(best, ranks[raw(ids[i])]);
    }
  }
  // A node whose rank is below `least` cannot win, whatever kube-scheduler's plugins add.
  const auto reach = static_cast<std::uint32_t>(kMaxPluginScore / std::max<std::int64_t>(step, 1));
  const std::uint32_t least = best - std::min(best, reach);
  std::size_t kept = 0;
  // Keep nodes of the best rank first.
  for (const bool at_top : {true, false}) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (reasons_[i] != alloc::Reason::kFits || (ranks[raw(ids[i])] == best) != at_top) {
        continue;
      }
      if (kept < kMaxBestNodes && ranks[raw(ids[i])] >= least) {
        ++kept;
      } else {
        reasons_[i] = static_cast<alloc::Reason>(kSurpassed);
      }
    }
  }
}

Decisions::FilterSummary Decisions::filter(const NodeArgs& args, std::optional<std::int64_t> best_step,
                                           std::string& out) {
  const WaitingPod pod = state_.waiting_pod(args.pod);
  if (!pod.request) {
    return reject_all(args, pod.request.error().text(), out);
  }
  if (args.annotation_bytes + kRecordBytes > kube::kMaxAnnotationBytes) {
    return reject_all(
        args,
        fmt::format("the pod's annotations have {} bytes and leave no space for the record of its "
                    "GPUs; Kubernetes allows {} bytes in total",
                    args.annotation_bytes, kube::kMaxAnnotationBytes),
        out);
  }
  judge(*pod.request, args);
  if (best_step) {
    keep_best(*pod.request, args, *best_step);
  }
  FilterSummary summary;
  const Counts counts = write_fitting(args, summary, out);
  summary.fit += counts[kSurpassed];
  summary.search_ended = counts[static_cast<std::size_t>(alloc::Reason::kSearchEnded)] > 0;
  for (std::size_t reason = 0; reason < alloc::kReasons; ++reason) {
    (is_unresolvable(reason) ? summary.unresolvable : summary.failed) += counts[reason];
    summary.may_fit_soon += alloc::may_pass(static_cast<alloc::Reason>(reason)) ? counts[reason] : 0;
  }
  write_failed(args, pod, counts, /*unresolvable=*/false, out);
  write_failed(args, pod, counts, /*unresolvable=*/true, out);
  out += R"(,"Error":""})";
  if (summary.fit == 0 && args.size() > 0) {
    const auto most = static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin());
    summary.main_reason = phrase_of(most, pod);
    if (summary.failed > 0) {
      summary.nearest = nearest_of(*pod.request, args.nodes->ids());
    }
  }
  return summary;
}

std::string Decisions::nearest_of(const alloc::Request& request, std::span<const alloc::NodeId> nodes) const {
  const alloc::NodeStates& states = state_.ledger().states();
  const bool whole = request.shape.whole > 0;
  const auto room = [&](alloc::NodeId id) { return whole ? states.whole_free(id) : states.largest_free(id); };
  std::optional<alloc::NodeId> best;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!is_unresolvable(static_cast<std::size_t>(reasons_[i])) && (!best || room(nodes[i]) > room(*best))) {
      best = nodes[i];
    }
  }
  return best ? alloc::explain(state_.ledger(), state_.placer(), request, *best).text : "";
}

Decisions::FilterSummary Decisions::reject_all(const NodeArgs& args, const std::string& reason,
                                               std::string& out) {
  std::string quoted = ":";
  json::append_quoted(quoted, reason);
  out += args.names_only ? R"({"Nodes":null,"NodeNames":[])" : R"({"Nodes":{"metadata":{},"items":[]})";
  out += R"(,"FailedNodes":{},"FailedAndUnresolvableNodes":{)";
  for (std::size_t i = 0; i < args.size(); ++i) {
    out += i > 0 ? "," : "";
    out += args.quoted(i, i + 1);
    out += quoted;
  }
  out += R"(},"Error":""})";
  return {.fit = 0,
          .failed = 0,
          .unresolvable = args.size(),
          .may_fit_soon = 0,
          .invalid_request = true,
          .main_reason = reason,
          .nearest = ""};
}

void write_filter_error(std::string_view text, std::string& out) {
  out += R"({"Nodes":null,"NodeNames":null,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":)";
  json::append_quoted(out, text);
  out += '}';
}

void write_bind_result(std::string_view error, std::string& out) {
  out += R"({"Error":)";
  json::append_quoted(out, error);
  out += '}';
}

}  // namespace tessera::extender
