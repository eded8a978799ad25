// The report of `tessera savings` as Markdown, to be forwarded.
#include <fmt/format.h>

#include <algorithm>

#include "cli/output/markup.h"
#include "cli/savings/savings_words.h"

namespace tessera::cli {

namespace {

constexpr std::size_t kMostRows = 50;

std::string optional_memory(const std::optional<double>& mib) {
  return mib ? memory_text(*mib) : "-";
}

class Markdown {
 public:
  explicit Markdown(const SavingsView& view) : view_(view), report_(view.report) {}

  std::string all() {
    out_ = "# What would sharing GPUs save?\n\n";
    out_ += fmt::format("**{}**\n\n", markdown_text(headline(view_)));
    for (const std::string& line : consequences(view_)) {
      out_ += markdown_text(line) + "\n\n";
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
    add_list("Warnings", report_.warnings);
    return out_;
  }

 private:
  void heading(std::string_view title) { out_ += fmt::format("## {}\n\n", title); }

  void row(const std::vector<std::string>& cells) {
    out_ += "|";
    for (const std::string& cell : cells) {
      out_ += fmt::format(" {} |", markdown_text(cell));
    }
    out_ += "\n";
  }

  void header(const std::vector<std::string>& cells) {
    row(cells);
    out_ += "|";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      out_ += "---|";
    }
    out_ += "\n";
  }

  void add_groups() {
    heading("By node pool");
    header({"Pool", "GPU model", "Nodes", "GPUs", "Unallocated", "Idle", "Held now", "Needed with sharing",
            "of these whole", "of these shared", "Nodes freed"});
    for (const SavingsGroup& group : report_.groups) {
      row({group.pool.empty() ? "-" : group.pool, group.model.empty() ? "unknown" : group.model,
           fmt::to_string(group.nodes), fmt::to_string(group.gpus), fmt::to_string(group.unallocated()),
           fmt::to_string(group.idle), fmt::to_string(group.held), fmt::to_string(group.needed()),
           fmt::to_string(group.whole), fmt::to_string(group.shared),
           group.freed_nodes.empty()
               ? "0"
               : fmt::format("{} ({})", group.freed_nodes.size(), fmt::join(group.freed_nodes, ", "))});
    }
    out_ += "\n";
  }

  void add_policies() {
    if (report_.outcomes.size() < 2) {
      return;
    }
    heading("By policy");
    header({"Policy", "GPUs needed", "In random orders", "Nodes freed"});
    for (const PolicyOutcome& one : report_.outcomes) {
      row({std::string(alloc::to_string(one.policy)), fmt::to_string(one.gpus),
           one.fewest == one.most ? fmt::to_string(one.most) : fmt::format("{} to {}", one.fewest, one.most),
           fmt::to_string(one.freed_nodes)});
    }
    out_ += "\n";
  }

  void add_whole() {
    const std::vector<WholeRow> rows = whole_rows(view_);
    if (rows.empty()) {
      return;
    }
    heading("Pods that must stay whole");
    header({"Pods", "GPUs", "Because each", "Which"});
    for (const WholeRow& one : rows) {
      std::string names;
      const std::size_t shown = std::min<std::size_t>(one.pods.size(), kMostRows);
      for (std::size_t i = 0; i < shown; ++i) {
        names += (i == 0 ? "" : ", ") + one.pods[i]->text();
      }
      row({fmt::to_string(one.pods.size()), fmt::to_string(one.gpus), whole_text(one.why, view_.rules),
           one.pods.size() > shown ? fmt::format("{} and {} more", names, one.pods.size() - shown) : names});
    }
    out_ += "\n";
  }

  void add_shared() {
    if (report_.shared.empty()) {
      return;
    }
    heading("Pods that can share");
    header({"Node", "GPU", "Pod", "Measured memory", "Share", "Utilization"});
    std::size_t rows = 0;
    std::size_t all = 0;
    for (const SharedGpu& gpu : report_.shared) {
      for (const std::size_t position : gpu.pods) {
        ++all;
        if (rows == kMostRows) {
          continue;
        }
        ++rows;
        const SavingsPod& pod = report_.pods[position];
        row({gpu.node, fmt::to_string(gpu.index), pod.text(), optional_memory(pod.memory_mib),
             view_.rules.unit.amount(pod.units),
             pod.utilization_percent ? fmt::format("{:.1f}%", *pod.utilization_percent) : "-"});
      }
    }
    out_ += all > rows ? fmt::format("\nand {} more.\n\n", all - rows) : "\n";
  }

  void add_idle() {
    const std::vector<const SavingsPod*> pods = idle_pods(view_);
    if (pods.empty()) {
      return;
    }
    heading("Idle GPUs");
    out_ += markdown_text(fmt::format("{} {} allocated but idle: the {} utilization is below {:g}%.",
                                      counted_text(report_.idle(), "GPU"), report_.idle() == 1 ? "is" : "are",
                                      view_.utilization.text(), view_.rules.idle_utilization)) +
            "\n\n";
    header({"Pod", "Node", "GPUs", "Idle", "Utilization", "Memory"});
    for (std::size_t i = 0; i < std::min(pods.size(), kMostRows); ++i) {
      row({pods[i]->text(), pods[i]->node, fmt::to_string(pods[i]->gpus), fmt::to_string(pods[i]->idle_gpus),
           fmt::format("{:.1f}%", pods[i]->utilization_percent.value_or(0)),
           optional_memory(pods[i]->memory_mib)});
    }
    out_ += pods.size() > kMostRows ? fmt::format("\nand {} more pods.\n\n", pods.size() - kMostRows) : "\n";
  }

  void add_list(std::string_view title, const std::vector<std::string>& lines) {
    if (lines.empty()) {
      return;
    }
    heading(title);
    for (const std::string& line : lines) {
      out_ += fmt::format("- {}\n", markdown_text(line));
    }
    out_ += "\n";
  }

  const SavingsView& view_;
  const SavingsReport& report_;
  std::string out_;
};

}  // namespace

std::string savings_markdown(const SavingsView& view) {
  std::string text = Markdown(view).all();
  while (text.ends_with("\n\n")) {
    text.pop_back();
  }
  return text;
}

}  // namespace tessera::cli
