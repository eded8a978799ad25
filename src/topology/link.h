// topology/link.h
//
// The connection between two GPUs of a node: NVLinks and PCIe path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::topology {

// The PCIe distance between two devices, in the terms of nvidia-smi. Larger values are nearer and
// faster, so that comparison operators order by performance.
enum class PciePath : std::uint8_t {
  kUnknown,  // not known: for a pair with NVLinks, `topo -m` shows no PCIe path
  kSys,      // across CPU sockets (QPI, UPI, Infinity Fabric)
  kNode,     // across PCIe host bridges of one NUMA node
  kPhb,      // through one PCIe host bridge
  kPxb,      // through several PCIe switches
  kPix,      // through one PCIe switch
  kPsb,      // on one board
};

inline constexpr unsigned kMaxNvlinks = 36;           // NVML_NVLINK_MAX_LINKS
inline constexpr unsigned kMaxNvlinkGeneration = 15;  // currently 5

struct Link {
  PciePath path = PciePath::kUnknown;
  std::uint8_t nvlinks = 0;     // 0 .. kMaxNvlinks
  std::uint8_t generation = 0;  // NVLink generation, 1 Pascal .. 5 Blackwell; 0 without NVLinks
  bool nvswitch = false;        // the NVLinks go to switches and are shared by all peers

  friend bool operator==(const Link&, const Link&) = default;
};

// Returns "SYS", ..., "PSB"; "-" for kUnknown.
std::string_view to_string(PciePath path);
std::optional<PciePath> parse_pcie_path(std::string_view text);

// Returns what `topo -m` shows: "NV2" or the PCIe path.
std::string short_name(const Link& link);

// Returns the complete description that our JSON uses: "NV2:2/PIX", "NV12s:3" (generation 3, via
// NVSwitch), "SYS".
std::string full_name(const Link& link);
std::optional<Link> parse_full_name(std::string_view text);

// Returns a description for people: "Two NVLinks", "Cross CPU socket". The texts are those of the
// GPU_TOPOLOGY annotation.
std::string describe(const Link& link);

}  // namespace tessera::topology
