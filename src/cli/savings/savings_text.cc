// The text of `tessera savings` for a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cli/output/table.h"
#include "cli/savings/savings_document.h"

namespace tessera::cli {

namespace {

constexpr std::size_t kMostRows = 10;
constexpr std::size_t kMostNames = 3;
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kLine = 98;  // columns of prose if the output is not a terminal

class Text final : public SavingsDocument {
 public:
  Text(const SavingsView& view, const Terminal& terminal)
      : SavingsDocument(view), terminal_(terminal), line_(terminal.columns > 0 ? terminal.columns : kLine) {}

 private:
  [[nodiscard]] std::size_t most_warnings() const override { return view_.details ? kAll : kMostRows; }
  [[nodiscard]] std::size_t most_names() const { return view_.details ? kAll : kMostNames; }

  // Writes a sentence in lines, the following ones indented like the first.
  void add_sentence(std::string_view text, std::string_view bullet = "") {
    const std::size_t room = line_ > 2 * bullet.size() ? line_ - bullet.size() : line_;
    std::string_view before = bullet;
    const std::string indent(bullet.size(), ' ');
    for (const std::string& line : wrapped_lines(text, room)) {
      out_.append(before).append(line).append("\n");
      before = indent;
    }
  }

  void add_answer() override {
    add_sentence(headline(view_));
    for (const std::string& line : consequences(view_)) {
      add_sentence(line);
    }
  }

  void add_groups() override {
    std::vector<Table::Cell> header = {"POOL", "MODEL",  "NODES", "GPUS",   "FREE",  "IDLE",
                                       "HELD", "NEEDED", "WHOLE", "SHARED", "ALONE", "NODES FREED"};
    Table table(std::move(header));
    std::int64_t nodes = 0;
    std::int64_t unallocated = 0;
    std::int64_t freed = 0;
    std::int64_t whole = 0;
    std::int64_t alone = 0;
    for (const SavingsGroup& group : report_.groups) {
      nodes += group.nodes;
      unallocated += group.unallocated();
      freed += std::ssize(group.freed_nodes);
      whole += group.whole;
      alone += group.alone;
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
                 fmt::to_string(group.alone),
                 fmt::to_string(group.freed_nodes.size())});
    }
    if (report_.groups.size() > 1) {
      table.add({"total", "", fmt::to_string(nodes), fmt::to_string(report_.gpus),
                 fmt::to_string(unallocated), fmt::to_string(report_.idle()), fmt::to_string(report_.held),
                 fmt::to_string(report_.needed), fmt::to_string(whole),
                 fmt::to_string(report_.needed - whole - alone), fmt::to_string(alone),
                 fmt::to_string(freed)});
    }
    out_ += "\n" + table.text(terminal_);
  }

  void add_policies() override {
    Table table({"POLICY", "NEEDED", "IN RANDOM ORDERS", "NODES FREED"});
    for (const PolicyOutcome& one : report_.outcomes) {
      table.add(
          {alloc::to_string(one.policy), fmt::to_string(one.gpus),
           one.fewest == one.most ? fmt::to_string(one.most) : fmt::format("{} to {}", one.fewest, one.most),
           fmt::to_string(one.freed_nodes)});
    }
    out_ += "\n" + table.text(terminal_);
  }

  void add_whole(const std::vector<WholeRow>& rows) override {
    if (rows.empty()) {
      return;
    }
    std::int64_t pods = 0;
    std::int64_t gpus = 0;
    Table table({"PODS", "GPUS", "BECAUSE EACH", "WHICH"}, {.wrap_last = true});
    for (const WholeRow& row : rows) {
      pods += std::ssize(row.pods);
      gpus += row.gpus;
      table.add({fmt::to_string(row.pods.size()), fmt::to_string(row.gpus), whole_text(row.why, view_.rules),
                 names_text(row.pods, most_names())});
    }
    out_ +=
        fmt::format("\n{} on {} must stay whole:\n", counted_text(pods, "pod"), counted_text(gpus, "GPU"));
    out_ += table.text(terminal_);
  }

  void add_alone(const std::vector<AloneRow>& rows) override {
    if (rows.empty()) {
      return;
    }
    std::int64_t pods = 0;
    Table table({"PODS", "BECAUSE", "WHICH"}, {.wrap_last = true});
    for (const AloneRow& row : rows) {
      pods += std::ssize(row.pods);
      table.add({fmt::to_string(row.pods.size()), alone_text(row.why, view_.rules),
                 names_text(row.pods, most_names())});
    }
    out_ += fmt::format("\n{} could share, but would be alone on {}:\n", counted_text(pods, "pod"),
                        pods == 1 ? "its GPU" : "their GPUs");
    out_ += table.text(terminal_);
  }

  void add_shared(const std::vector<const SharedGpu*>& gpus) override {
    if (gpus.empty()) {
      return;
    }
    std::int64_t pods = 0;
    Table table({"NODE", "GPU", "MEMORY", "PODS", "WHICH"}, {.wrap_last = true});
    const std::size_t shown = view_.details ? gpus.size() : std::min(gpus.size(), kMostRows);
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const SharedGpu& gpu = *gpus[i];
      pods += std::ssize(gpu.pods);
      if (i >= shown) {
        continue;
      }
      std::vector<const SavingsPod*> names;
      for (const std::size_t pod : gpu.pods) {
        names.push_back(&report_.pods[pod]);
      }
      table.add({gpu.node, fmt::to_string(gpu.index),
                 fmt::format("{}/{}", gpu.used_units, view_.rules.unit.amount(gpu.total_units)),
                 fmt::to_string(gpu.pods.size()), names_text(names, most_names())});
    }
    out_ +=
        fmt::format("\n{} can share {}:\n", counted_text(pods, "pod"), counted_text(std::ssize(gpus), "GPU"));
    out_ += table.text(terminal_);
    add_rest(gpus.size() - shown, "GPUs");
  }

  void add_idle(const std::vector<const SavingsPod*>& pods) override {
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
                 memory_text(pods[i]->memory_mib)});
    }
    out_ += table.text(terminal_);
    add_rest(pods.size() - shown, "pods");
  }

  void add_rest(std::size_t count, std::string_view what) {
    if (count > 0) {
      out_ += fmt::format("and {} more {}; --details lists all\n", count, what);
    }
  }

  void add_list(std::string_view title, const std::vector<std::string>& lines) override {
    if (lines.empty()) {
      return;
    }
    out_ += fmt::format("\n{}\n", title);
    for (const std::string& line : lines) {
      add_sentence(line, "- ");
    }
  }

  const Terminal& terminal_;
  std::size_t line_;
};

}  // namespace

std::string savings_text(const SavingsView& view, const Terminal& terminal) {
  return Text(view, terminal).write();
}

}  // namespace tessera::cli
