#include "extender/decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "alloc/explain.h"
#include "alloc/reason.h"
#include "json/escape.h"

namespace tessera::extender {

namespace {

// Copies list elements lo..hi of the body, with the commas between them: one piece of memory however many.
void append_run(const NodeArgs& args, std::size_t lo, std::size_t hi, bool& first, std::string& out) {
  if (!std::exchange(first, false)) {
    out += ',';
  }
  const char* begin = args.raw[lo].data();
  const char* end = args.raw[hi - 1].data() + args.raw[hi - 1].size();
  out.append(begin, static_cast<std::size_t>(end - begin));
}

// "tessera why" can say more only where it is a question of who holds what.
bool worth_asking(alloc::Reason reason) {
  return alloc::eviction_may_help(reason);
}

bool is_hopeless(std::size_t reason) {
  return reason >= alloc::kReasons || !alloc::eviction_may_help(static_cast<alloc::Reason>(reason));
}

}  // namespace

Decisions::Decisions(Books& books) : books_(books), finder_(books.ledger()) {}

std::string Decisions::phrase_of(std::size_t reason, const WaitingPod& pod) const {
  if (reason == kForeign) {
    return "another device plugin gives out the same GPUs";
  }
  const auto known = static_cast<alloc::Reason>(reason);
  std::string text = alloc::phrase(known, *pod.request, books_.unit(), books_.names());
  if (worth_asking(known)) {
    text += fmt::format(" (tessera why pod/{} -n {})", pod.key.name, pod.key.pod_namespace);
  }
  return text;
}

Decisions::FilterSummary Decisions::filter(const NodeArgs& args, std::string& out) {
  const WaitingPod pod = books_.waiting_pod(args.pod);
  FilterSummary summary;
  if (!pod.request) {
    return refuse_all(args, pod.request.error().text(), out);
  }
  const NodeFinder::Found found = finder_.find(args.names);
  found_reasons_.resize(found.known.size());
  books_.placer().filter(*pod.request, found.known, found_reasons_);

  // By place in the body's list.
  const std::size_t count = args.names.size();
  reasons_.resize(count);
  const bool any_foreign = books_.foreign_nodes() > 0;
  std::size_t known = 0;
  std::size_t next_unknown = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (next_unknown < found.unknown.size() && found.unknown[next_unknown] == i) {
      ++next_unknown;
      reasons_[i] = static_cast<std::uint8_t>(alloc::Reason::kUnknownNode);
      continue;
    }
    const bool foreign = any_foreign && books_.is_foreign(found.known[known]);
    reasons_[i] =
        foreign ? static_cast<std::uint8_t>(kForeign) : static_cast<std::uint8_t>(found_reasons_[known]);
    ++known;
  }

  constexpr auto kFits = static_cast<std::uint8_t>(alloc::Reason::kFits);
  out += args.names_only ? R"({"Nodes":null,"NodeNames":[)" : R"({"Nodes":{"metadata":{},"items":[)";
  bool first = true;
  std::array<std::size_t, kPhrases> counts{};
  for (std::size_t i = 0; i < count;) {
    std::size_t end = i;
    while (end < count && reasons_[end] == kFits) {
      ++end;
    }
    if (end > i) {
      append_run(args, i, end, first, out);
      summary.fit += end - i;
      i = end;
    }
    while (i < count && reasons_[i] != kFits) {
      ++counts[reasons_[i++]];
    }
  }
  out += args.names_only ? "]" : R"(]},"NodeNames":null)";

  Phrases phrases;
  for (std::size_t reason = 0; reason < kPhrases; ++reason) {
    if (counts[reason] > 0) {
      json::append_quoted(phrases[reason], phrase_of(reason, pod));
      (is_hopeless(reason) ? summary.hopeless : summary.failed) += counts[reason];
    }
  }
  for (const bool hopeless : {false, true}) {
    out += hopeless ? R"(,"FailedAndUnresolvableNodes":{)" : R"(,"FailedNodes":{)";
    if ((hopeless ? summary.hopeless : summary.failed) > 0) {
      first = true;
      for (std::size_t i = 0; i < count; ++i) {
        if (reasons_[i] == kFits || is_hopeless(reasons_[i]) != hopeless) {
          continue;
        }
        if (!std::exchange(first, false)) {
          out += ',';
        }
        if (args.names_only) {
          out += args.raw[i];
        } else {
          json::append_quoted(out, args.names[i]);
        }
        out += ':';
        out += phrases[reasons_[i]];
      }
    }
    out += '}';
  }
  out += R"(,"Error":""})";
  if (summary.fit == 0 && count > 0) {
    const auto most = static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin());
    summary.main_reason = phrase_of(most, pod);
    if (summary.failed > 0) {
      summary.nearest = nearest_of(*pod.request, found.known);
    }
  }
  return summary;
}

std::string Decisions::nearest_of(const alloc::Request& request, std::span<const alloc::NodeId> nodes) const {
  const alloc::NodeStates& states = books_.ledger().states();
  const bool whole = request.shape.whole > 0;
  const auto room = [&](alloc::NodeId id) { return whole ? states.whole_free(id) : states.largest_free(id); };
  const auto best = std::ranges::max_element(nodes, {}, room);
  return best == nodes.end() ? "" : alloc::explain(books_.ledger(), books_.placer(), request, *best).text;
}

// The pod itself makes no sense: no node can help, and no eviction.
Decisions::FilterSummary Decisions::refuse_all(const NodeArgs& args, const std::string& why,
                                               std::string& out) {
  std::string quoted;
  json::append_quoted(quoted, why);
  out += args.names_only ? R"({"Nodes":null,"NodeNames":[])" : R"({"Nodes":{"metadata":{},"items":[]})";
  out += R"(,"FailedNodes":{},"FailedAndUnresolvableNodes":{)";
  bool first = true;
  for (const std::string_view name : args.names) {
    if (!std::exchange(first, false)) {
      out += ',';
    }
    json::append_quoted(out, name);
    out += ':';
    out += quoted;
  }
  out += R"(},"Error":""})";
  return {.fit = 0, .failed = 0, .hopeless = args.names.size(), .main_reason = why, .nearest = ""};
}

void Decisions::prioritize(const NodeArgs& args, std::int64_t step, std::string& out) {
  const WaitingPod pod = books_.waiting_pod(args.pod);
  const NodeFinder::Found found = finder_.find(args.names);
  scores_.assign(found.known.size(), alloc::kDoesNotFit);
  if (pod.request) {
    if (books_.policy_changes() != policy_changes_) {
      policy_changes_ = books_.policy_changes();
      memory_.forget();
    }
    memory_.score(books_.ledger(), books_.placer(), *pod.request, found.known, scores_);
  }
  // Ranks instead of scores: only their order has a meaning, and their differences would drown everything
  // else that kube-scheduler weighs. 0 is for nodes that have become full, whether there are any or not.
  scores_.push_back(alloc::kDoesNotFit);
  const std::span<const std::uint32_t> ranks = ranks_.of(scores_);
  tails_.resize(ranks_.distinct());
  for (std::size_t rank = 0; rank < tails_.size(); ++rank) {
    tails_[rank] = fmt::format(R"(,"Score":{}}})", static_cast<std::int64_t>(rank) * step);
  }

  constexpr std::string_view kHead = R"({"Host":)";
  out += '[';
  std::size_t known = 0;
  std::size_t next_unknown = 0;
  for (std::size_t i = 0; i < args.names.size(); ++i) {
    std::size_t rank = 0;
    if (next_unknown < found.unknown.size() && found.unknown[next_unknown] == i) {
      ++next_unknown;
    } else {
      rank = ranks[known++];
    }
    if (i > 0) {
      out += ',';
    }
    out += kHead;
    if (args.names_only) {
      out += args.raw[i];
    } else {
      json::append_quoted(out, args.names[i]);
    }
    out += tails_[rank];
  }
  out += ']';
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
