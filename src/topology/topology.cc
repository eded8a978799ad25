#include "topology/topology.h"

#include <cstdlib>
#include <string_view>

namespace tessera::topology {

namespace {

// FNV-1a: short, and the same on every machine.
class Hasher {
 public:
  void add(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) {
      add_byte(static_cast<std::uint8_t>(number >> (8 * i)));
    }
  }
  void add(std::string_view text) {
    add(text.size());
    for (const char c : text) {
      add_byte(static_cast<std::uint8_t>(c));
    }
  }
  void add(const IndexList& list) {
    add(list.ranges().size());
    for (const IndexRange& range : list.ranges()) {
      add((std::uint64_t{range.first} << 32U) | range.last);
    }
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  void add_byte(std::uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3ULL; }

  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

std::uint64_t packed(const Link& link) {
  return (static_cast<std::uint64_t>(link.path) << 24U) | (std::uint64_t{link.nvlinks} << 16U) |
         (std::uint64_t{link.generation} << 8U) | (link.nvswitch ? 1U : 0U);
}

}  // namespace

Topology::Topology(unsigned gpus)
    : size_(gpus), links_(gpus * (gpus - (gpus > 0 ? 1 : 0)) / 2), places_(gpus) {
  if (gpus > kMaxGpus) {
    std::abort();
  }
}

std::int32_t Topology::numa_node(unsigned gpu) const {
  const IndexList& numa = places_[gpu].numa;
  return numa.empty() ? -1 : static_cast<std::int32_t>(numa.ranges().front().first);
}

std::uint64_t Topology::near_nics(unsigned gpu) const {
  std::uint64_t near = 0;
  for (std::size_t i = 0; i < nics.size(); ++i) {
    if (nics[i].paths[gpu] >= PciePath::kPxb) {
      near |= std::uint64_t{1} << i;
    }
  }
  return near;
}

std::uint64_t Topology::hash() const {
  Hasher hasher;
  hasher.add(size_);
  hasher.add((std::uint64_t{pcie_generation} << 32U) | socket_mbps);
  for (const Link& link : links_) {
    hasher.add(packed(link));
  }
  for (const GpuPlace& place : places_) {
    hasher.add(place.cpus);
    hasher.add(place.numa);
    hasher.add(static_cast<std::uint32_t>(place.memory_numa));
  }
  hasher.add(nics.size());
  for (const Nic& nic : nics) {
    hasher.add(nic.name);
    hasher.add(nic.device);
    for (const PciePath path : nic.paths) {
      hasher.add(static_cast<std::uint64_t>(path));
    }
  }
  return hasher.value();
}

}  // namespace tessera::topology
