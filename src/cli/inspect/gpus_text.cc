// The layouts of the original kubectl-inspect-gpu, including its misspelling, because scripts parse
// them.
#include <fmt/format.h>

#include <algorithm>

#include "cli/inspect/inspect.h"
#include "cli/output/tabbed_text.h"
#include "cli/output/table.h"

namespace tessera::cli {

namespace {

constexpr std::string_view kRule = "----------------------------------------\n";

constexpr std::string_view kLegend =
    "\n"
    "Legend:\n"
    " X    = Self\n"
    " SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n"
    " NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA "
    "node\n"
    " PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)\n"
    " PXB  = Connection traversing multiple PCIe switches (without traversing the PCIe Host Bridge)\n"
    " PIX  = Connection traversing a single PCIe switch\n"
    " PSB  = Connection traversing a single on-board PCIe switch\n"
    " NV#  = Connection traversing a bonded set of # NVLinks\n";

// Equals the original's matrix for up to ten GPUs. For more, the original's columns are misaligned;
// these are aligned.
std::string matrix(const GpuNode& node) {
  const auto label = [&](std::size_t i) { return fmt::format("GPU{}", node.gpus[i].index); };
  std::size_t widest = 4;
  for (std::size_t i = 0; i < node.gpus.size(); ++i) {
    widest = std::max(widest, label(i).size());
  }
  std::string text(widest + 1, ' ');
  for (std::size_t i = 0; i < node.gpus.size(); ++i) {
    text += " " + label(i);
  }
  text += '\n';
  for (std::size_t i = 0; i < node.gpus.size(); ++i) {
    text += fmt::format("{:<{}} ", label(i), widest);
    for (std::size_t j = 0; j < node.gpus.size(); ++j) {
      text += fmt::format("{:>{}}", node.links[i][j], label(j).size() + 1);
    }
    text += '\n';
  }
  return text;
}

std::string row_of_gpus(const GpuNode& node, const Terminal& terminal) {
  std::string row;
  for (const NodeGpu& gpu : node.gpus) {
    switch (gpu.use()) {
      case GpuState::kFree:
        row += terminal.bars ? "□" : ".";
        break;
      case GpuState::kShared:
        row += terminal.bars ? "◧" : "s";
        break;
      case GpuState::kWhole:
        row += terminal.bars ? "■" : "W";
        break;
      case GpuState::kUnhealthy:
        row += terminal.bars ? "×" : "x";
        break;
    }
  }
  return row;
}

std::string models_of(const GpuNode& node) {
  std::vector<std::string> models;
  for (const NodeGpu& gpu : node.gpus) {
    if (!gpu.model.empty() && std::ranges::find(models, gpu.model) == models.end()) {
      models.push_back(gpu.model);
    }
  }
  return models.empty() ? "-" : fmt::format("{}", fmt::join(models, ", "));
}

std::string holders_of(const GpuNode& node) {
  std::string list;
  for (const NodeGpu& gpu : node.gpus) {
    if (!gpu.pods.empty()) {
      list += fmt::format("{}{}: {}", list.empty() ? "" : "; ", gpu.index, fmt::join(gpu.pods, ", "));
    }
  }
  return list.empty() ? "-" : list;
}

}  // namespace

std::string gpus_summary(const GpuNodes& nodes) {
  std::string text = "NAME\tALLGPU\tUSEDGPU\n";
  for (const GpuNode& node : nodes.nodes) {
    text += fmt::format("{}\t{}\t{}\n", node.name, node.gpus.size(), node.used());
  }
  return tabbed_text(text);
}

std::string gpus_details(const GpuNodes& nodes) {
  std::string text = fmt::format("gpu policy: {}\n{}", nodes.policy, kRule);
  for (std::size_t i = 0; i < nodes.nodes.size(); ++i) {
    const GpuNode& node = nodes.nodes[i];
    text += i > 0 ? kRule : "";
    text +=
        fmt::format("node name: {}\nall gpu: {}\nused gpu: {}\n", node.name, node.gpus.size(), node.used());
    text += node.type.empty() ? "" : fmt::format("node type: {}\n", node.type);
    text += node.links.empty() ? "" : "gpu topolocy:\n" + matrix(node);
  }
  return text.append(kLegend);
}

std::string gpus_wide(const GpuNodes& nodes, const Terminal& terminal) {
  Table table({"NAME", "IPADDRESS", "TYPE", "MODEL", "GPUS", "USED", "FREE", "UNHEALTHY", "PODS"});
  for (const GpuNode& node : nodes.nodes) {
    const auto unhealthy = std::ranges::count(node.gpus, GpuState::kUnhealthy, &NodeGpu::use);
    table.add({node.name,
               node.address,
               node.type.empty() ? "-" : node.type,
               models_of(node),
               row_of_gpus(node, terminal),
               fmt::format("{}/{}", node.used(), node.gpus.size()),
               std::to_string(node.free()),
               {std::to_string(unhealthy), unhealthy > 0 ? Colour::kRed : Colour::kNone},
               holders_of(node)});
  }
  return table.text(terminal) + (terminal.bars ? "GPUS: □ free  ◧ shared  ■ whole  × unhealthy\n"
                                               : "GPUS: . free  s shared  W whole  x unhealthy\n");
}

}  // namespace tessera::cli
