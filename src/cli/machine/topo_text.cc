// The text output of `tessera topo`.
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <functional>
#include <ostream>

#include "cli/machine/topo.h"
#include "cli/output/table.h"
#include "topology/bandwidth.h"

namespace tessera::cli {

namespace {

using topology::Topology;

std::string nics_near(const Topology& box, unsigned gpu) {
  std::string names;
  for (std::size_t i = 0; i < box.nics.size(); ++i) {
    if ((box.near_nics(gpu) >> i & 1U) != 0) {
      names += names.empty() ? "" : ",";
      names += box.nics[i].name;
    }
  }
  return names.empty() ? "-" : names;
}

Table::Cell state_of(const TopoView& view, unsigned gpu) {
  if (const std::string use = view.uses.empty() ? "" : view.uses[gpu].text(); !use.empty()) {
    return {use, view.uses[gpu].unhealthy.empty() ? Colour::kYellow : Colour::kRed};
  }
  const topology::GpuMask bit = topology::gpu_bit(gpu);
  if ((view.taken & bit) != 0) {
    return {"taken", Colour::kYellow};
  }
  return {view.choice && (view.choice->set.gpus & bit) != 0 ? "chosen" : "free", Colour::kGreen};
}

// NVLinks stand out, and paths between sockets recede.
Table::Cell link_cell(const topology::Link& link) {
  return {short_name(link), link.nvlinks > 0                        ? Colour::kGreen
                            : link.path <= topology::PciePath::kSys ? Colour::kDim
                                                                    : Colour::kNone};
}

// A matrix of links that is too wide loses what is not about links first, then continues below.
Narrow narrow_links(bool states) {
  return {.drop = {"CPUS", "NICS", "NUMA"}, .wrap_last = states};
}

void print_links(const TopoView& view, std::ostream& out, const Terminal& terminal) {
  const Topology& box = view.topology;
  const bool states = view.choice || view.taken != 0 || !view.uses.empty();
  std::vector<Table::Cell> header = {"LINK"};
  for (unsigned gpu = 0; gpu < box.size(); ++gpu) {
    header.emplace_back(fmt::format("GPU{}", gpu));
  }
  header.insert(header.end(), {"NUMA", "NICS", "CPUS"});
  if (states) {
    header.emplace_back("STATE");
  }
  Table table(std::move(header), narrow_links(states));
  for (unsigned gpu = 0; gpu < box.size(); ++gpu) {
    std::vector<Table::Cell> row = {fmt::format("GPU{}", gpu)};
    for (unsigned peer = 0; peer < box.size(); ++peer) {
      row.push_back(peer == gpu ? Table::Cell(".", Colour::kDim) : link_cell(box.link(gpu, peer)));
    }
    const topology::GpuPlace& place = box.place(gpu);
    row.emplace_back(place.numa.empty() ? "-" : place.numa.text());
    row.emplace_back(nics_near(box, gpu));
    row.emplace_back(place.cpus.empty() ? "-" : place.cpus.text());
    if (states) {
      row.push_back(state_of(view, gpu));
    }
    table.add(std::move(row));
  }
  out << table.text(terminal);
}

void print_bandwidths(const Topology& box, std::ostream& out, const Terminal& terminal) {
  std::vector<Table::Cell> header = {"GB/s"};
  for (unsigned gpu = 0; gpu < box.size(); ++gpu) {
    header.emplace_back(fmt::format("GPU{}", gpu));
  }
  Table table(std::move(header));
  for (unsigned gpu = 0; gpu < box.size(); ++gpu) {
    std::vector<Table::Cell> row = {fmt::format("GPU{}", gpu)};
    for (unsigned peer = 0; peer < box.size(); ++peer) {
      row.emplace_back(peer == gpu ? "." : gigabytes(topology::pair_mbps(box, gpu, peer)));
    }
    table.add(std::move(row));
  }
  out << table.text(terminal);
}

// Returns the ring with its links: "0 -NV2- 3 -NV1- 1 ...".
std::string ring_text(const Topology& box, const std::vector<unsigned>& ring) {
  std::string text;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    text += fmt::format("{} -{}- ", ring[i], short_name(box.link(ring[i], ring[(i + 1) % ring.size()])));
  }
  return text + fmt::format("{}", ring.front());
}

void print_choice(const TopoView& view, std::ostream& out) {
  const TopoView::Choice& choice = *view.choice;
  const topology::SetChoice& set = choice.set;
  const topology::GpuMask rest = view.topology.all() & ~view.taken & ~set.gpus;
  fmt::print(out, "{} of {} free GPUs by {}: GPU {}\n", topology::gpu_count(set.gpus),
             topology::gpu_count(view.topology.all() & ~view.taken), choice.policy,
             topology::gpu_list(set.gpus));
  if (topology::gpu_count(set.gpus) > 1) {
    fmt::print(out, "  ring        {} GB/s; best possible for {} GPUs here {} GB/s\n",
               gigabytes(set.ring_mbps), topology::gpu_count(set.gpus), gigabytes(set.ideal_mbps));
    if (choice.ring.size() > 2) {
      fmt::print(out, "  order       {}\n", ring_text(view.topology, choice.ring));
    }
    fmt::print(out, "  pair score  {}\n", choice.pair_sum);
  }
  fmt::print(out, "  left free   {}\n", rest == 0 ? "none" : "GPU " + topology::gpu_list(rest));
  if (!set.exact) {
    fmt::print(out,
               "  The machine has more than {} GPUs, so the search is bounded: a better set may exist.\n",
               topology::kExactGpus);
  }
}

}  // namespace

void print_topo_text(const TopoView& view, std::ostream& out, const Terminal& terminal) {
  const Topology& box = view.topology;
  fmt::print(out, "{}\n{} GPU{}, PCIe generation {}, {} GB/s between sockets{}\n\n", view.title, box.size(),
             box.size() == 1 ? "" : "s", topology::pcie_generation(box),
             gigabytes(topology::socket_mbps(box)), box.pcie_generation == 0 ? " (guessed)" : "");
  print_links(view, out, terminal);
  out << '\n';
  print_bandwidths(box, out, terminal);
  if (view.choice) {
    out << '\n';
    print_choice(view, out);
  }
  out << (view.notes.empty() ? "" : "\n");
  for (const std::string& note : view.notes) {
    out << prose("note: " + note, terminal);
  }
}

}  // namespace tessera::cli
