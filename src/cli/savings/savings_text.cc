// The text of `tessera savings` for a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/output/table.h"
#include "cli/savings/savings_words.h"

namespace tessera::cli {

namespace {

constexpr std::size_t kMostRows = 10;
constexpr std::size_t kMostNames = 3;
constexpr std::size_t kLine = 98;

// Breaks a sentence into lines, the following ones indented like the first.
std::string wrapped(std::string_view text, std::string_view first, std::string_view indent) {
  std::string out(first);
  std::size_t width = first.size();
  bool fresh = true;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (!fresh && width + 1 + display_width(word) > kLine) {
      out.append("\n").append(indent);
      width = indent.size();
      fresh = true;
    }
    out.append(fresh ? "" : " ").append(word);
    width += display_width(word) + (fresh ? 0 : 1);
    fresh = false;
    begin = end + 1;
  }
  return out + "\n";
}

std::string percent_text(const std::optional<double>& percent) {
  return percent ? fmt::format("{:.1f}%", *percent) : "-";
}

std::string mib_text(const std::optional<double>& mib) {
  return mib ? memory_text(*mib) : "-";
}

std::string names_of(const std::vector<const SavingsPod*>& pods, bool all) {
  std::string names;
  const std::size_t shown = all ? pods.size() : std::min(pods.size(), kMostNames);
  for (std::size_t i = 0; i < shown; ++i) {
    names += (i == 0 ? "" : ", ") + pods[i]->text();
  }
  return pods.size() > shown ? fmt::format("{} and {} more", names, pods.size() - shown) : names;
}

class Text {
 public:
  Text(const SavingsView& view, const Terminal& terminal)
      : view_(view), report_(view.report), terminal_(terminal) {}

  std::string all() {
    out_ = wrapped(headline(view_), "", "");
    for (const std::string& line : consequences(view_)) {
      out_ += wrapped(line, "", "");
    }
    if (report_.gpus == 0) {
      return out_;
    }
    add_groups();
    add_policies();
    add_whole();
    add_shared();
    add_idle();
    add_list("How sure is the number?", confidence(view_));
    add_list("Rules of this plan", assumptions(view_));
    add_list("Left out", left_out(view_));
    return out_;
  }

 private:
  void add_groups() {
    std::vector<Table::Cell> header = {"POOL", "MODEL",  "NODES", "GPUS",   "FREE",       "IDLE",
                                       "HELD", "NEEDED", "WHOLE", "SHARED", "NODES FREED"};
    Table table(std::move(header));
    std::int64_t nodes = 0;
    std::int64_t unallocated = 0;
    std::int64_t freed = 0;
    std::int64_t whole = 0;
    for (const SavingsGroup& group : report_.groups) {
      nodes += group.nodes;
      unallocated += group.unallocated();
      freed += std::ssize(group.freed_nodes);
      whole += group.whole;
      table.add({group.pool.empty() ? "-" : group.pool,
                 group.model.empty() ? "unknown" : group.model,
                 fmt::to_string(group.nodes),
                 fmt::to_string(group.gpus),
                 fmt::to_string(group.unallocated()),
                 fmt::to_string(group.idle),
                 fmt::to_string(group.held),
                 {fmt::to_string(group.needed()), group.saved() > 0 ? Colour::kGreen : Colour::kNone},
                 fmt::to_string(group.whole),
                 fmt::to_string(group.shared),
                 fmt::to_string(group.freed_nodes.size())});
    }
    if (report_.groups.size() > 1) {
      table.add({"total", "", fmt::to_string(nodes), fmt::to_string(report_.gpus),
                 fmt::to_string(unallocated), fmt::to_string(report_.idle()), fmt::to_string(report_.held),
                 fmt::to_string(report_.needed), fmt::to_string(whole),
                 fmt::to_string(report_.needed - whole), fmt::to_string(freed)});
    }
    out_ += "\n" + table.text(terminal_);
  }

  void add_policies() {
    if (report_.outcomes.size() < 2) {
      return;
    }
    Table table({"POLICY", "NEEDED", "IN RANDOM ORDERS", "NODES FREED"});
    for (const PolicyOutcome& one : report_.outcomes) {
      table.add(
          {alloc::to_string(one.policy), fmt::to_string(one.gpus),
           one.fewest == one.most ? fmt::to_string(one.most) : fmt::format("{} to {}", one.fewest, one.most),
           fmt::to_string(one.freed_nodes)});
    }
    out_ += "\n" + table.text(terminal_);
  }

  void add_whole() {
    const std::vector<WholeRow> rows = whole_rows(view_);
    if (rows.empty()) {
      return;
    }
    std::size_t pods = 0;
    std::int64_t gpus = 0;
    for (const WholeRow& row : rows) {
      pods += row.pods.size();
      gpus += row.gpus;
    }
    out_ += fmt::format("\n{} on {} must stay whole:\n", counted_text(static_cast<std::int64_t>(pods), "pod"),
                        counted_text(gpus, "GPU"));
    Table table({"PODS", "GPUS", "BECAUSE EACH", "WHICH"});
    for (const WholeRow& row : rows) {
      table.add({fmt::to_string(row.pods.size()), fmt::to_string(row.gpus), whole_text(row.why, view_.rules),
                 names_of(row.pods, view_.details)});
    }
    out_ += table.text(terminal_);
  }

  void add_shared() {
    if (report_.shared.empty()) {
      return;
    }
    std::size_t pods = 0;
    for (const SharedGpu& gpu : report_.shared) {
      pods += gpu.pods.size();
    }
    out_ += fmt::format("\n{} can share {}:\n", counted_text(static_cast<std::int64_t>(pods), "pod"),
                        counted_text(std::ssize(report_.shared), "GPU"));
    Table table({"NODE", "GPU", "MEMORY", "PODS", "WHICH"});
    const std::size_t shown =
        view_.details ? report_.shared.size() : std::min(report_.shared.size(), kMostRows);
    for (std::size_t i = 0; i < shown; ++i) {
      const SharedGpu& gpu = report_.shared[i];
      std::vector<const SavingsPod*> names;
      for (const std::size_t pod : gpu.pods) {
        names.push_back(&report_.pods[pod]);
      }
      table.add({gpu.node, fmt::to_string(gpu.index),
                 fmt::format("{}/{}", gpu.used_units, view_.rules.unit.amount(gpu.total_units)),
                 fmt::to_string(gpu.pods.size()), names_of(names, view_.details)});
    }
    out_ += table.text(terminal_);
    add_rest(report_.shared.size() - shown, "GPUs");
  }

  void add_idle() {
    const std::vector<const SavingsPod*> pods = idle_pods(view_);
    std::int64_t unallocated = 0;
    for (const SavingsGroup& group : report_.groups) {
      unallocated += group.unallocated();
    }
    if (pods.empty() && unallocated == 0) {
      return;
    }
    out_ += fmt::format("\n{} {}.\n", counted_text(unallocated, "GPU"),
                        unallocated == 1 ? "is not allocated" : "are not allocated");
    if (pods.empty()) {
      return;
    }
    out_ += fmt::format("{} {} allocated but idle ({} utilization below {:g}%):\n",
                        counted_text(report_.idle(), "GPU"), report_.idle() == 1 ? "is" : "are",
                        view_.utilization.text(), view_.rules.idle_utilization);
    Table table({"POD", "NODE", "GPUS", "IDLE", "UTILIZATION", "MEMORY"});
    const std::size_t shown = view_.details ? pods.size() : std::min(pods.size(), kMostRows);
    for (std::size_t i = 0; i < shown; ++i) {
      table.add({pods[i]->text(), pods[i]->node, fmt::to_string(pods[i]->gpus),
                 fmt::to_string(pods[i]->idle_gpus), percent_text(pods[i]->utilization_percent),
                 mib_text(pods[i]->memory_mib)});
    }
    out_ += table.text(terminal_);
    add_rest(pods.size() - shown, "pods");
  }

  void add_rest(std::size_t count, std::string_view what) {
    if (count > 0) {
      out_ += fmt::format("and {} more {}; --details lists all\n", count, what);
    }
  }

  void add_list(std::string_view title, const std::vector<std::string>& lines) {
    if (lines.empty()) {
      return;
    }
    out_ += fmt::format("\n{}\n", title);
    for (const std::string& line : lines) {
      out_ += wrapped(line, "- ", "  ");
    }
  }

  const SavingsView& view_;
  const SavingsReport& report_;
  const Terminal& terminal_;
  std::string out_;
};

}  // namespace

std::string savings_text(const SavingsView& view, const Terminal& terminal) {
  return Text(view, terminal).all();
}

}  // namespace tessera::cli
