#include "topology/topo_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "topology/topo_infer.h"
#include "topology/topo_lines.h"

namespace tessera::topology {

namespace {

constexpr std::size_t kMaxTextBytes = 1U << 20U;
constexpr std::size_t kMaxColumnBytes = 64;

// The number in "GPU12".
std::optional<unsigned> gpu_index(std::string_view name) {
  if (!name.starts_with("GPU")) {
    return std::nullopt;
  }
  const auto index = parse_int(name.substr(3));
  return index && *index >= 0 && *index < 100'000 ? std::optional(static_cast<unsigned>(*index))
                                                  : std::nullopt;
}

bool is_device_name(std::string_view name) {
  static constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:";
  return !name.empty() && name.size() <= kMaxColumnBytes &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

// Reads the text line by line into a matrix, which infer_topology() then completes.
class TopoReader {
 public:
  Result<TopoMatrix> read(std::string_view text) {
    const std::vector<TopoLine> lines = topo_lines(text);
    if (lines.empty()) {
      return fail(ErrorCode::kInvalid,
                  "line 1, column 1: no matrix found; expected the output of nvidia-smi topo -m");
    }
    TRY(read_header(lines.front()));
    for (std::size_t i = 1; i < lines.size(); ++i) {
      if (!TRY(read_legend(lines[i]))) {
        TRY(read_row(lines[i]));
      }
    }
    if (std::ranges::none_of(matrix_.has_row, [](bool row) { return row; })) {
      return fail(
          lines.front().wrong(lines.front().end_column, "the header is not followed by rows of GPUs"));
    }
    return std::move(matrix_);
  }

 private:
  enum class Affinity { kCpus, kNuma, kMemoryNuma };

  static std::optional<Affinity> affinity_title(std::string_view title) {
    if (title == "CPUAffinity") {
      return Affinity::kCpus;
    }
    if (title == "NUMAAffinity") {
      return Affinity::kNuma;
    }
    return title == "GPUNUMAID" ? std::optional(Affinity::kMemoryNuma) : std::nullopt;
  }

  Status read_header(const TopoLine& line) {
    unsigned gpus = 0;
    std::vector<Nic> nics;
    for (const TopoCell& cell : line.cells) {
      if (cell.text.empty()) {
        continue;
      }
      if (const auto affinity = affinity_title(cell.text)) {
        if (std::ranges::count(affinities_, *affinity) > 0) {
          return fail(line.wrong(cell, fmt::format("{} appears twice in the header", cell.text)));
        }
        affinities_.push_back(*affinity);
        continue;
      }
      const bool in_order = affinities_.empty() && (nics.empty() || !gpu_index(cell.text));
      if (in_order && gpu_index(cell.text) == gpus) {
        ++gpus;
      } else if (gpus > 0 && in_order && !gpu_index(cell.text) && is_device_name(cell.text)) {
        nics.push_back(Nic{.name = cell.text, .device = {}, .paths = {}});
      } else {
        return fail(line.wrong(cell, header_error(cell.text, gpus)));
      }
      if (gpus > kMaxGpus || nics.size() > Topology::kMaxNics) {
        return fail(
            line.wrong(cell, fmt::format("more than {} GPUs or {} NICs", kMaxGpus, Topology::kMaxNics)));
      }
    }
    if (gpus == 0) {
      return fail(line.wrong(1, "no GPU in the header; expected GPU0 GPU1 ... as nvidia-smi topo -m prints"));
    }
    matrix_ = TopoMatrix(gpus, std::move(nics));
    return {};
  }

  static std::string header_error(std::string_view cell, unsigned gpus) {
    if (gpus == 0) {
      return fmt::format("{} is not a header; expected GPU0 GPU1 ... as nvidia-smi topo -m prints",
                         in_quotes(cell));
    }
    return fmt::format("{} in the header; expected GPU{}, a NIC or an affinity column{}", in_quotes(cell),
                       gpus, gpu_index(cell) ? " (GPUs are numbered in order, without gaps)" : "");
  }

  // "Legend:" starts an explanation of the matrix, "NIC Legend:" a list of lines like "NIC0:
  // mlx5_0". Returns whether the line belongs to one of them.
  Result<bool> read_legend(const TopoLine& line) {
    std::string text;
    for (const TopoCell& cell : line.cells) {
      text += text.empty() || cell.text.empty() ? "" : " ";
      text += cell.text;
    }
    if (text == "Legend:" || text == "NIC Legend:") {
      legend_ = text == "Legend:" ? LegendPart::kLinks : LegendPart::kNics;
      return true;
    }
    if (legend_ == LegendPart::kNics) {
      const auto colon = text.find(": ");
      const std::string_view name = std::string_view(text).substr(0, colon);
      for (Nic& nic : matrix_.nics) {
        if (colon != std::string::npos && nic.name == name) {
          const std::string_view device = trim(std::string_view(text).substr(colon + 1));
          if (!is_device_name(device)) {
            return fail(
                line.wrong(line.cells.front(), fmt::format("{} is not a device name", in_quotes(device))));
          }
          nic.device = device;
        }
      }
    }
    return legend_ != LegendPart::kNone;
  }

  Status read_row(const TopoLine& line) {
    std::vector<TopoCell> cells = line.cells;
    while (!cells.empty() && cells.front().text.empty()) {
      cells.erase(cells.begin());
    }
    const TopoCell name = cells.front();
    cells.erase(cells.begin());
    const auto nic = std::ranges::find(matrix_.nics, name.text, &Nic::name);
    const auto gpu = gpu_index(name.text);
    if (nic == matrix_.nics.end() && (!gpu || *gpu >= matrix_.gpus)) {
      return fail(
          line.wrong(name, fmt::format("{} is neither a GPU nor a NIC of the header", in_quotes(name.text))));
    }
    if (gpu && matrix_.has_row[*gpu]) {
      return fail(line.wrong(name, fmt::format("a second row for {}", name.text)));
    }
    // Cells of the matrix are never blank. A blank cell is only padding below a wide title.
    const std::size_t columns = matrix_.gpus + matrix_.nics.size();
    std::size_t used = 0;
    std::size_t column = 0;
    for (; used < cells.size() && column < columns; ++used) {
      if (!cells[used].text.empty()) {
        TRY(gpu ? read_gpu_cell(line, cells[used], *gpu, column)
                : read_nic_cell(line, cells[used], *nic, column));
        ++column;
      }
    }
    if (column < columns) {
      return fail(line.wrong(line.end_column, fmt::format("the row of {} ends after {} of {} columns",
                                                          name.text, column, columns)));
    }
    if (gpu) {
      matrix_.has_row[*gpu] = true;
      cells.erase(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(used));
      return read_affinities(line, *gpu, std::move(cells));
    }
    return {};
  }

  Status read_gpu_cell(const TopoLine& line, const TopoCell& cell, unsigned gpu, std::size_t column) {
    if (column >= matrix_.gpus) {
      const auto path = parse_path(cell.text);
      if (!path) {
        return fail(
            line.wrong(cell, fmt::format("{} is not a path to a NIC (SYS, NODE, PHB, PXB, PIX or PSB)",
                                         in_quotes(cell.text))));
      }
      matrix_.nics[column - matrix_.gpus].paths[gpu] = *path;
      return {};
    }
    if (column == gpu) {
      return cell.text == "X" ? Status()
                              : fail(line.wrong(cell, fmt::format("{} on the diagonal of GPU{}; expected X",
                                                                  in_quotes(cell.text), gpu)));
    }
    const auto link = parse_link(cell.text);
    if (!link) {
      return fail(
          line.wrong(cell, fmt::format("{} is not a link (SYS, NODE, PHB, PXB, PIX, PSB or NV1 to NV{})",
                                       in_quotes(cell.text), kMaxNvlinks)));
    }
    matrix_.link(gpu, static_cast<unsigned>(column)) = link;
    return {};
  }

  Status read_nic_cell(const TopoLine& line, const TopoCell& cell, Nic& nic, std::size_t column) {
    const auto path = parse_path(cell.text);
    if (!path && cell.text != "X") {
      return fail(line.wrong(cell, fmt::format("{} is not a path to a NIC (SYS, NODE, PHB, PXB, PIX or PSB)",
                                               in_quotes(cell.text))));
    }
    if (path && column < matrix_.gpus && nic.paths[column] == PciePath::kUnknown) {
      nic.paths[column] = *path;
    }
    return {};
  }

  static std::optional<PciePath> parse_path(std::string_view text) {
    return text == "N/A" ? PciePath::kUnknown : parse_pcie_path(text);
  }

  static std::optional<Link> parse_link(std::string_view text) {
    if (!text.starts_with("NV")) {
      const auto path = parse_path(text);
      return path ? std::optional(Link{.path = *path}) : std::nullopt;
    }
    const auto count = parse_int(text.substr(2));
    if (!count || *count < 1 || *count > kMaxNvlinks) {
      return std::nullopt;
    }
    return Link{.nvlinks = static_cast<std::uint8_t>(*count)};
  }

  // Assigns the cells after the matrix to the affinity columns.
  Status read_affinities(const TopoLine& line, unsigned gpu, std::vector<TopoCell> cells) {
    while (cells.size() > affinities_.size() && !cells.empty() && cells.back().text.empty()) {
      cells.pop_back();
    }
    // nvidia-smi prints two tabs before GPU NUMA ID.
    if (cells.size() > affinities_.size() && cells.size() >= 2 && cells[cells.size() - 2].text.empty()) {
      cells.erase(cells.end() - 2);
    }
    while (cells.size() > affinities_.size() && cells.front().text.empty()) {
      cells.erase(cells.begin());
    }
    if (cells.size() > affinities_.size()) {
      return fail(line.wrong(
          cells[affinities_.size()],
          fmt::format("{} has no column in the header", in_quotes(cells[affinities_.size()].text))));
    }
    std::vector<Affinity> columns = affinities_;
    if (cells.size() < columns.size() && !line.tabs) {
      columns = columns_of(cells);
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      TRY(read_affinity(line, cells[i], columns[i], matrix_.places[gpu]));
    }
    return {};
  }

  // Between spaces a blank column is not visible. So if there are fewer cells than columns, a range
  // like 0-31 is taken as CPUs, and a single number as a NUMA node.
  [[nodiscard]] std::vector<Affinity> columns_of(const std::vector<TopoCell>& cells) const {
    std::vector<Affinity> left = affinities_;
    std::vector<Affinity> columns;
    for (const TopoCell& cell : cells) {
      Affinity wanted = Affinity::kNuma;
      if (cell.text == "N/A") {
        wanted = Affinity::kMemoryNuma;
      } else if (cell.text.find('-') != std::string::npos) {
        wanted = Affinity::kCpus;
      }
      auto found = std::ranges::find(left, wanted);
      found = found == left.end() ? left.begin() : found;
      columns.push_back(*found);
      left.erase(left.begin(), found + 1);  // columns keep their order
      if (left.empty() && columns.size() < cells.size()) {
        return affinities_;
      }
    }
    return columns;
  }

  static Status read_affinity(const TopoLine& line, const TopoCell& cell, Affinity column, GpuPlace& place) {
    if (cell.text.empty() || cell.text == "N/A") {
      return {};
    }
    auto list = IndexList::parse(cell.text);
    if (!list) {
      return fail(line.wrong(cell, list.error().text()));
    }
    switch (column) {
      case Affinity::kCpus:
        place.cpus = std::move(*list);
        break;
      case Affinity::kNuma:
        place.numa = std::move(*list);
        break;
      case Affinity::kMemoryNuma:
        place.memory_numa = static_cast<std::int32_t>(list->ranges().front().first);
        break;
    }
    return {};
  }

  enum class LegendPart { kNone, kLinks, kNics };

  TopoMatrix matrix_;
  std::vector<Affinity> affinities_;
  LegendPart legend_ = LegendPart::kNone;
};

}  // namespace

Result<TopoText> parse_topo_text(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return fail(ErrorCode::kInvalid,
                fmt::format("the topology has {} bytes; the limit is {}", text.size(), kMaxTextBytes));
  }
  return infer_topology(TRY(TopoReader().read(text)));
}

std::string print_topo_text(const Topology& topology) {
  bool cpus = false;
  bool numa = false;
  bool memory = false;
  std::string out;
  for (unsigned gpu = 0; gpu < topology.size(); ++gpu) {
    out += fmt::format("\tGPU{}", gpu);
    cpus = cpus || !topology.place(gpu).cpus.empty();
    numa = numa || !topology.place(gpu).numa.empty();
    memory = memory || topology.place(gpu).memory_numa >= 0;
  }
  bool legend = false;
  for (const Nic& nic : topology.nics) {
    out += fmt::format("\t{}", nic.name);
    legend = legend || !nic.device.empty();
  }
  out += fmt::format("{}{}{}\n", cpus ? "\tCPU Affinity" : "", numa ? "\tNUMA Affinity" : "",
                     memory ? "\tGPU NUMA ID" : "");
  for (unsigned gpu = 0; gpu < topology.size(); ++gpu) {
    out += fmt::format("GPU{}", gpu);
    for (unsigned peer = 0; peer < topology.size(); ++peer) {
      out += peer == gpu ? "\t X " : fmt::format("\t{}", short_name(topology.link(gpu, peer)));
    }
    for (const Nic& nic : topology.nics) {
      out += fmt::format("\t{}", to_string(nic.paths[gpu]));
    }
    const GpuPlace& place = topology.place(gpu);
    out += cpus ? fmt::format("\t{}", place.cpus.text()) : "";
    out += numa ? fmt::format("\t{}", place.numa.text()) : "";
    if (memory) {
      out += place.memory_numa >= 0 ? fmt::format("\t\t{}", place.memory_numa) : "\t\tN/A";
    }
    out += '\n';
  }
  if (legend) {
    out += "\nNIC Legend:\n\n";
    for (const Nic& nic : topology.nics) {
      out += nic.device.empty() ? "" : fmt::format("  {}: {}\n", nic.name, nic.device);
    }
  }
  return out;
}

}  // namespace tessera::topology
