// The report of `tessera savings` as Markdown, to be forwarded.
#include <fmt/format.h>

#include <algorithm>

#include "cli/output/markup.h"
#include "cli/savings/savings_document.h"

namespace tessera::cli {

namespace {

constexpr std::size_t kMostRows = 50;

class Markdown final : public SavingsDocument {
 public:
  using SavingsDocument::SavingsDocument;

 private:
  [[nodiscard]] std::size_t most_warnings() const override { return kMostRows; }

  void add_answer() override {
    out_ = "# What would sharing GPUs save?\n\n";
    out_ += fmt::format("**{}**\n\n", markdown_text(headline(view_)));
    for (const std::string& line : consequences(view_)) {
      out_ += markdown_text(line) + "\n\n";
    }
  }

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

  void add_groups() override {
    heading("By node pool");
    header({"Pool", "GPU model", "Nodes", "GPUs", "Unallocated", "Idle", "Held now", "Needed with sharing",
            "of these whole", "of these shared", "of these with one pod", "Nodes freed"});
    for (const SavingsGroup& group : report_.groups) {
      row({group.pool.empty() ? "-" : group.pool, group.model.empty() ? "unknown" : group.model,
           fmt::to_string(group.nodes), fmt::to_string(group.gpus), fmt::to_string(group.unallocated()),
           fmt::to_string(group.idle), fmt::to_string(group.held), fmt::to_string(group.needed()),
           fmt::to_string(group.whole), fmt::to_string(group.shared), fmt::to_string(group.alone),
           group.freed_nodes.empty()
               ? "0"
               : fmt::format("{} ({})", group.freed_nodes.size(), fmt::join(group.freed_nodes, ", "))});
    }
    out_ += "\n";
  }

  void add_policies() override {
    heading("By policy");
    header({"Policy", "GPUs needed", "In random orders", "Nodes freed"});
    for (const PolicyOutcome& one : report_.outcomes) {
      row({std::string(alloc::to_string(one.policy)), fmt::to_string(one.gpus),
           one.fewest == one.most ? fmt::to_string(one.most) : fmt::format("{} to {}", one.fewest, one.most),
           fmt::to_string(one.freed_nodes)});
    }
    out_ += "\n";
  }

  void add_whole(const std::vector<WholeRow>& rows) override {
    if (rows.empty()) {
      return;
    }
    heading("Pods that must stay whole");
    header({"Pods", "GPUs", "Because each", "Which"});
    for (const WholeRow& one : rows) {
      row({fmt::to_string(one.pods.size()), fmt::to_string(one.gpus), whole_text(one.why, view_.rules),
           names_text(one.pods, kMostRows)});
    }
    out_ += "\n";
  }

  void add_alone(const std::vector<AloneRow>& rows) override {
    if (rows.empty()) {
      return;
    }
    heading("Pods that could share, but would be alone on their GPU");
    header({"Pods", "Because", "Which"});
    for (const AloneRow& one : rows) {
      row({fmt::to_string(one.pods.size()), alone_text(one.why, view_.rules),
           names_text(one.pods, kMostRows)});
    }
    out_ += "\n";
  }

  void add_shared(const std::vector<const SharedGpu*>& gpus) override {
    if (gpus.empty()) {
      return;
    }
    heading("Pods that can share");
    header({"Node", "GPU", "Pod", "Measured memory", "Share", "Utilization"});
    std::size_t rows = 0;
    std::size_t all = 0;
    for (const SharedGpu* gpu : gpus) {
      for (const std::size_t position : gpu->pods) {
        ++all;
        if (rows == kMostRows) {
          continue;
        }
        ++rows;
        const SavingsPod& pod = report_.pods[position];
        row({gpu->node, fmt::to_string(gpu->index), pod.text(), memory_text(pod.memory_mib),
             view_.rules.unit.amount(pod.units), percent_text(pod.utilization_percent)});
      }
    }
    out_ += all > rows ? fmt::format("\nand {} more.\n\n", all - rows) : "\n";
  }

  void add_idle(const std::vector<const SavingsPod*>& pods) override {
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
           percent_text(pods[i]->utilization_percent), memory_text(pods[i]->memory_mib)});
    }
    out_ += pods.size() > kMostRows ? fmt::format("\nand {} more pods.\n\n", pods.size() - kMostRows) : "\n";
  }

  void add_list(std::string_view title, const std::vector<std::string>& lines) override {
    if (lines.empty()) {
      return;
    }
    heading(title);
    for (const std::string& line : lines) {
      out_ += fmt::format("- {}\n", markdown_text(line));
    }
    out_ += "\n";
  }
};

}  // namespace

std::string savings_markdown(const SavingsView& view) {
  std::string text = Markdown(view).write();
  while (text.ends_with("\n\n")) {
    text.pop_back();
  }
  return text;
}

}  // namespace tessera::cli
