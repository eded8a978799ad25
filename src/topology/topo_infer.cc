#include "topology/topo_infer.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace tessera::topology {

namespace {

constexpr unsigned kMaxLinksPerGpu = 18;

bool is_slower(const Link& a, const Link& b) {
  return std::pair(a.nvlinks, a.path) < std::pair(b.nvlinks, b.path);
}

// Returns the link of all pairs in the matrix if they are equal.
std::optional<Link> common_link(const TopoMatrix& matrix) {
  std::optional<Link> common;
  for (const std::optional<Link>& link : matrix.links) {
    if (link && common && *link != *common) {
      return std::nullopt;
    }
    common = link ? link : common;
  }
  return common;
}

// Derives NUMA nodes from the CPU lists if no GPU has a NUMA node.
void infer_numa(Topology& topology, std::vector<std::string>& notes) {
  std::vector<IndexList> nodes;
  for (unsigned gpu = 0; gpu < topology.size(); ++gpu) {
    if (!topology.place(gpu).numa.empty()) {
      return;
    }
  }
  for (unsigned gpu = 0; gpu < topology.size(); ++gpu) {
    GpuPlace& place = topology.place(gpu);
    if (place.cpus.empty()) {
      continue;
    }
    const auto known = std::ranges::find(nodes, place.cpus);
    place.numa = IndexList::of(static_cast<std::uint32_t>(known - nodes.begin()));
    if (known == nodes.end()) {
      nodes.push_back(place.cpus);
    }
  }
  if (!nodes.empty()) {
    notes.emplace_back("there is no NUMA column; assuming that GPUs with equal CPU lists share a NUMA node");
  }
}

unsigned links_of(const Topology& topology, unsigned gpu) {
  unsigned links = 0;
  for (unsigned peer = 0; peer < topology.size(); ++peer) {
    links += peer == gpu ? 0U : topology.link(gpu, peer).nvlinks;
  }
  return links;
}

unsigned generation_of(unsigned links, bool single_links) {
  if (links == 4 && single_links) {
    return 1;
  }
  if (links <= 6) {
    return 2;
  }
  if (links <= 12) {
    return 3;
  }
  return links <= kMaxLinksPerGpu ? 4 : 5;
}

}  // namespace

TopoMatrix::TopoMatrix(unsigned gpu_total, std::vector<Nic> nic_columns)
    : gpus(gpu_total),
      has_row(gpu_total, false),
      links(std::size_t{gpu_total} * gpu_total),
      places(gpu_total),
      nics(std::move(nic_columns)) {
  for (Nic& nic : nics) {
    nic.paths.assign(gpus, PciePath::kUnknown);
  }
}

void infer_nvlinks(Topology& topology) {
  unsigned widest = 0;  // most links of one pair
  for (unsigned a = 1; a < topology.size(); ++a) {
    for (unsigned b = 0; b < a; ++b) {
      widest = std::max<unsigned>(widest, topology.link(a, b).nvlinks);
    }
  }
  const unsigned limit = widest > kMaxLinksPerGpu ? kMaxNvlinks : kMaxLinksPerGpu;
  unsigned most = 0;  // most links of one GPU
  for (unsigned gpu = 0; gpu < topology.size(); ++gpu) {
    const unsigned links = links_of(topology, gpu);
    most = std::max(most, links > limit ? widest : links);
  }
  const auto generation = static_cast<std::uint8_t>(generation_of(most, widest == 1));
  for (unsigned a = 1; a < topology.size(); ++a) {
    for (unsigned b = 0; b < a; ++b) {
      Link link = topology.link(a, b);
      if (link.nvlinks > 0) {
        link.generation = generation;
        link.nvswitch = links_of(topology, a) > limit && links_of(topology, b) > limit;
        topology.set_link(a, b, link);
      }
    }
  }
}

TopoText infer_topology(TopoMatrix matrix) {
  TopoText result{.topology = Topology(matrix.gpus), .notes = {}};
  Topology& topology = result.topology;
  const std::optional<Link> common = common_link(matrix);
  GpuMask missing_rows = 0;
  unsigned unknown_pairs = 0;
  for (unsigned a = 0; a < matrix.gpus; ++a) {
    missing_rows |= matrix.has_row[a] ? 0 : gpu_bit(a);
    topology.place(a) = std::move(matrix.places[a]);
    for (unsigned b = 0; b < a; ++b) {
      const std::optional<Link>& one = matrix.link(a, b);
      const std::optional<Link>& other = matrix.link(b, a);
      if (!one && !other) {
        topology.set_link(a, b, common.value_or(Link{}));
        unknown_pairs += common ? 0U : 1U;
        continue;
      }
      if (one && other && *one != *other) {
        result.notes.push_back(
            fmt::format("GPU{} and GPU{}: one side says {}, the other {}; using the slower one", b, a,
                        short_name(*other), short_name(*one)));
      }
      topology.set_link(a, b, !one || (other && is_slower(*other, *one)) ? *other : *one);
    }
  }
  if (missing_rows != 0) {
    const char* whose = gpu_count(missing_rows) == 1 ? "its" : "their";
    result.notes.push_back(fmt::format(
        "no row for GPU {}; {}", gpu_list(missing_rows),
        unknown_pairs == 0 ? fmt::format("{} links are taken from the other rows", whose)
                           : fmt::format("{} pairs are unknown and treated as SYS", unknown_pairs)));
  }
  topology.nics = std::move(matrix.nics);
  infer_nvlinks(topology);
  if (matrix.gpus > 1 && topology.link(0, 1).nvlinks == kMaxLinksPerGpu) {
    result.notes.emplace_back(
        "18 NVLinks: assuming generation 4 (H100); the NVLinks of B200 are twice as fast");
  }
  infer_numa(topology, result.notes);
  return result;
}

}  // namespace tessera::topology
