// The text output of `tessera top`. Column names and closing lines are those of `arena top`.
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "cli/machine/topo.h"
#include "cli/output/table.h"
#include "cli/top/top.h"

namespace tessera::cli {

namespace {

// The columns of arena have long names. On a narrow terminal they are shorter, and the columns that
// say least about GPUs are dropped.
Narrow narrow_nodes() {
  return {.short_headers = {{"GPUs(Allocated/Total)", "GPUs"},
                            {"GPU_MEMORY(Allocated/Total)", "MEMORY"},
                            {"GPU_CORE(Allocated/Total)", "CORE"},
                            {"GPU_MEMORY(Used)", "USED"},
                            {"DUTY_CYCLE", "DUTY"}},
          .drop = {"ROLE", "IPADDRESS", "DUTY_CYCLE", "GPU_CORE(Allocated/Total)", "STATUS"},
          .shorten = {"NAME"}};
}

Narrow narrow_pods() {
  return {.short_headers = {{"GPU(Requested)", "REQUESTED"},
                            {"GPU(Allocated)", "ALLOCATED"},
                            {"GPU_MEM(Used)", "USED"}},
          .drop = {"GPU(Requested)"},
          .shorten = {"NAME", "NODE", "NAMESPACE", "ALLOCATED"},
          .keys = {"NAMESPACE", "NAME"}};
}

Narrow narrow_gpus() {
  return {.short_headers = {{"MEMORY(Total)", "TOTAL"},
                            {"MEMORY(Allocated)", "ALLOCATED"},
                            {"MEMORY(Used)", "USED"},
                            {"DUTY_CYCLE", "DUTY"}},
          .drop = {"DUTY_CYCLE"},
          .shorten = {"MODEL", "HEALTH"}};
}

std::string rule(const Terminal& terminal) {
  constexpr std::size_t kLength = 96;
  return std::string(terminal.columns > 0 ? std::min<std::size_t>(terminal.columns, kLength) : kLength, '-') +
         "\n";
}

// "3", "0.2".
std::string number(double value) {
  const double rounded = std::round(value * 10) / 10;
  return rounded == std::floor(rounded) ? fmt::format("{:.0f}", rounded) : fmt::format("{:.1f}", rounded);
}

// Converts units to GiB, the usual unit for the memory of a GPU.
double gib(std::uint64_t units, const TopNode& node) {
  return static_cast<double>(units) * node.unit_mib / 1024;
}

std::string memory(std::uint64_t allocated, std::uint64_t total, const TopNode& node) {
  return fmt::format("{:.1f}/{:.1f} GiB", gib(allocated, node), gib(total, node));
}

std::string core_of(const TopNode& node) {
  std::uint64_t sum = 0;
  for (const TopGpu& gpu : node.gpus) {
    sum += gpu.core_percent;
  }
  return sum == 0 ? "__" : fmt::format("{}%/{}%", sum, node.gpus.size() * 100);
}

std::string used_of(const TopNode& node) {
  double sum = 0;
  bool known = false;
  for (const TopGpu& gpu : node.gpus) {
    known = known || gpu.usage.has_value();
    sum += gpu.usage ? gpu.usage->memory_mib : 0;
  }
  return known ? fmt::format("{:.1f} GiB", sum / 1024) : "-";
}

std::string duty_of(const TopNode& node) {
  double sum = 0;
  std::size_t known = 0;
  for (const TopGpu& gpu : node.gpus) {
    known += gpu.usage ? 1 : 0;
    sum += gpu.usage ? gpu.usage->duty_percent : 0;
  }
  return known == 0 ? "-" : fmt::format("{:.0f}%", sum / static_cast<double>(known));
}

Table::Cell share_of(double part, double whole) {
  const auto used = static_cast<std::int64_t>(std::llround(part * 1000));
  const auto total = static_cast<std::int64_t>(std::llround(whole * 1000));
  return {fmt::format("{}/{}", number(part), number(whole)), load_colour(used, total)};
}

// "gpu0(3.0GiB),gpu1(whole)", or with UUIDs and units if the nodes are not known.
std::string places_of(const TopPod& pod, const TopNode& node) {
  std::string text;
  for (const auto& [uuid, units] : pod.units_on_uuid) {
    text += fmt::format("{}{}({})", text.empty() ? "" : ",", uuid,
                        units == 0 ? "whole" : fmt::format("{} units", units));
  }
  for (const auto& [index, units] : pod.units_on) {
    text += fmt::format("{}gpu{}({})", text.empty() ? "" : ",", index,
                        units == 0 ? "whole" : fmt::format("{:.1f}GiB", gib(units, node)));
  }
  return text.empty() ? (pod.decided ? "GPU lost" : "undecided") : text;
}

std::string requested_of(const TopPod& pod, const TopNode& node, bool restricted = false) {
  std::string text;
  if (pod.units > 0) {
    text = restricted ? fmt::format("{} unit{}", pod.units, pod.units == 1 ? "" : "s")
                      : fmt::format("{:.1f}GiB", gib(pod.units, node));
  }
  if (pod.whole > 0) {
    text += fmt::format("{}{} GPU{}", text.empty() ? "" : " + ", pod.whole, pod.whole == 1 ? "" : "s");
  }
  return text;
}

std::string used_memory(const std::optional<double>& mib) {
  return mib ? fmt::format("{:.1f}GiB", *mib / 1024) : "-";
}

bool any_problem(const std::vector<TopPod>& pods) {
  return std::ranges::any_of(pods, [](const TopPod& pod) { return !pod.problems.empty(); });
}

Table::Cell problem_cell(const TopPod& pod) {
  std::string text;
  for (const std::string& problem : pod.problems) {
    text += (text.empty() ? "" : "; ") + problem;
  }
  return {text.empty() ? "-" : text, text.empty() ? Colour::kNone : Colour::kRed};
}

void pods_details(const TopNode& node, bool usage, const Terminal& terminal, std::string& text) {
  std::vector<Table::Cell> header{"NAMESPACE", "NAME", "GPU(Requested)", "GPU(Allocated)"};
  if (usage) {
    header.emplace_back("GPU_MEM(Used)");
  }
  const bool problems = any_problem(node.pods);
  if (problems) {
    header.emplace_back("PROBLEM");
  }
  Table table(std::move(header), narrow_pods());
  for (const TopPod& pod : node.pods) {
    std::vector<Table::Cell> row{pod.namespace_name,
                                 pod.name,
                                 requested_of(pod, node),
                                 {places_of(pod, node), pod.decided ? Colour::kNone : Colour::kYellow}};
    if (usage) {
      row.emplace_back(used_memory(pod.used_mib));
    }
    if (problems) {
      row.push_back(problem_cell(pod));
    }
    table.add(std::move(row));
  }
  text += node.pods.empty() ? "Instances: none\n" : "Instances:\n" + table.text(terminal);
}

void gpus_table(const TopNode& node, bool usage, const Terminal& terminal, std::string& text) {
  std::vector<Table::Cell> header{"INDEX", "MODEL", "MEMORY(Total)", "MEMORY(Allocated)"};
  if (usage) {
    header.emplace_back("MEMORY(Used)");
    header.emplace_back("DUTY_CYCLE");
  }
  header.emplace_back("HEALTH");
  Table table(std::move(header), narrow_gpus());
  for (const TopGpu& gpu : node.gpus) {
    std::vector<Table::Cell> row{
        std::to_string(gpu.index),
        gpu.model.empty() ? "-" : gpu.model,
        fmt::format("{:.1f} GiB", gib(gpu.total, node)),
        {gpu.whole ? "whole" : fmt::format("{:.1f} GiB", gib(gpu.allocated, node)),
         load_colour(static_cast<std::int64_t>(gpu.allocated), static_cast<std::int64_t>(gpu.total))}};
    if (usage) {
      row.emplace_back(gpu.usage ? fmt::format("{:.1f} GiB", gpu.usage->memory_mib / 1024) : "-");
      row.emplace_back(gpu.usage ? fmt::format("{:.0f}%", gpu.usage->duty_percent) : "-");
    }
    row.push_back(gpu.unhealthy.empty() ? Table::Cell("ok") : Table::Cell(gpu.unhealthy, Colour::kRed));
    table.add(std::move(row));
  }
  text += "GPUs:\n" + table.text(terminal);
}

std::string details(const TopOptions& options, const TopView& view, const Terminal& terminal) {
  std::string text;
  for (const TopNode& node : view.nodes) {
    text += fmt::format("Name:    {}\nStatus:  {}\nRole:    {}\nAddress: {}\n", node.name, node.status,
                        node.role, node.address);
    if (!node.problem.empty()) {
      text += fmt::format("Problem: {}\n", node.problem);
    }
    if (!node.gpus.empty()) {
      pods_details(node, view.usage, terminal, text);
      gpus_table(node, view.usage, terminal, text);
      text += fmt::format(
          "GPU Summary:\n  Total GPUs:           {}\n  Allocated GPUs:       {}\n"
          "  Unhealthy GPUs:       {}\n  Total GPU Memory:     {:.1f} GiB\n"
          "  Allocated GPU Memory: {:.1f} GiB\n",
          node.gpus.size(), number(node.allocated_gpus()), node.unhealthy(), gib(node.total(), node),
          gib(node.allocated(), node));
    }
    if (options.mode == "topology" && node.topology.size() > 0) {
      std::ostringstream links;
      TopoView topo;
      topo.title = "Links:";
      topo.topology = node.topology;
      print_topo_text(topo, links, terminal);
      text += links.str();
    }
    text += rule(terminal);
  }
  return text;
}

std::string cluster_summary(const TopOptions& options, const TopView& view) {
  double allocated_gpus = 0;
  double gpus = 0;
  double allocated = 0;
  double total = 0;
  std::string left_out;
  for (const TopNode& node : view.nodes) {
    if (!node.problem.empty()) {
      left_out += (left_out.empty() ? "" : ", ") + node.name;
      continue;
    }
    allocated_gpus += node.allocated_gpus();
    gpus += static_cast<double>(node.gpus.size());
    allocated += gib(node.allocated(), node);
    total += gib(node.total(), node);
  }
  std::string text;
  if (options.mode != "share") {
    text += fmt::format("Allocated/Total GPUs In Cluster:\n{}/{} ({:.0f}%)\n", number(allocated_gpus),
                        number(gpus), gpus > 0 ? 100 * allocated_gpus / gpus : 0);
  }
  if (options.mode == "share" || options.mode.empty()) {
    text += fmt::format("Allocated/Total GPU Memory In {}:\n{}/{} (GiB) ({:.0f}%)\n",
                        options.mode.empty() ? "Cluster" : "GPUShare Node", number(allocated), number(total),
                        total > 0 ? 100 * allocated / total : 0);
  }
  return left_out.empty() ? text
                          : text + fmt::format("Not counted, because they take no pods now: {}\n", left_out);
}

}  // namespace

std::string top_nodes_text(const TopOptions& options, const TopView& view, const Terminal& terminal) {
  if (view.nodes.empty()) {
    return !options.mode.empty()      ? "No node has this mode.\n"
           : !view.other_gpus.empty() ? prose(view.other_gpus, terminal)
                                      : "No node has GPUs.\n";
  }
  if (options.details) {
    return details(options, view, terminal) + (options.mode == "none" ? "" : cluster_summary(options, view));
  }
  const bool gpus = options.mode != "none";
  const bool memories = options.mode.empty() || options.mode == "share";
  bool unhealthy = false;
  for (const TopNode& node : view.nodes) {
    unhealthy = unhealthy || node.unhealthy() > 0;
  }
  std::vector<Table::Cell> header{"NAME", "IPADDRESS", "ROLE", "STATUS"};
  if (gpus) {
    header.emplace_back("GPUs(Allocated/Total)");
  }
  if (memories) {
    header.emplace_back("GPU_MEMORY(Allocated/Total)");
  }
  if (options.mode == "share" || options.output == "wide") {
    header.emplace_back("GPU_CORE(Allocated/Total)");
  }
  if (view.usage && gpus) {
    header.emplace_back("GPU_MEMORY(Used)");
    header.emplace_back("DUTY_CYCLE");
  }
  if (unhealthy) {
    header.emplace_back("UNHEALTHY");
  }
  Table table(std::move(header), narrow_nodes());
  for (const TopNode& node : view.nodes) {
    std::vector<Table::Cell> row{node.name,
                                 node.address,
                                 node.role,
                                 {node.status, node.status == "ready" ? Colour::kNone : Colour::kYellow}};
    if (gpus) {
      row.push_back(share_of(node.allocated_gpus(), static_cast<double>(node.gpus.size())));
    }
    if (memories) {
      row.emplace_back(memory(node.allocated(), node.total(), node));
    }
    if (options.mode == "share" || options.output == "wide") {
      row.emplace_back(core_of(node));
    }
    if (view.usage && gpus) {
      row.emplace_back(used_of(node));
      row.emplace_back(duty_of(node));
    }
    if (unhealthy) {
      row.emplace_back(std::to_string(node.unhealthy()), node.unhealthy() > 0 ? Colour::kRed : Colour::kNone);
    }
    table.add(std::move(row));
  }
  return table.text(terminal) + (gpus ? rule(terminal) + cluster_summary(options, view) : std::string());
}

std::string top_pods_text(const TopView& view, const Terminal& terminal) {
  if (view.waiting.empty()) {
    return "No pod requests GPUs.\n" + (view.other_gpus.empty() ? "" : prose(view.other_gpus, terminal));
  }
  std::vector<Table::Cell> header{"NAMESPACE", "NAME", "NODE", "GPU(Requested)", "GPU(Allocated)"};
  if (view.usage) {
    header.emplace_back("GPU_MEM(Used)");
  }
  const bool problems = any_problem(view.waiting);
  if (problems) {
    header.emplace_back("PROBLEM");
  }
  Table table(std::move(header), narrow_pods());
  TopNode unknown;
  for (const TopPod& pod : view.waiting) {
    const TopNode* node = &unknown;
    for (const TopNode& one : view.nodes) {
      node = one.name == pod.node ? &one : node;
    }
    if (pod.node.empty() && !view.nodes.empty()) {
      unknown.unit_mib = view.nodes.front().unit_mib;
    }
    const bool pending = pod.node.empty();
    std::vector<Table::Cell> row{pod.namespace_name,
                                 pod.name,
                                 pending ? "-" : pod.node,
                                 requested_of(pod, *node, view.restricted),
                                 {pending ? "pending" : places_of(pod, *node),
                                  pending || !pod.decided ? Colour::kYellow : Colour::kNone}};
    if (view.usage) {
      row.emplace_back(used_memory(pod.used_mib));
    }
    if (problems) {
      row.push_back(problem_cell(pod));
    }
    table.add(std::move(row));
  }
  return table.text(terminal);
}

}  // namespace tessera::cli
