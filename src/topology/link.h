// topology/link.h
//
// What connects two GPUs of a node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::topology {

// How far apart two devices are on PCIe, in nvidia-smi's words. The order is by nearness, larger is nearer,
// so that classes compare the way they perform.
enum class PciePath : std::uint8_t {
  kUnknown,  // not told: `topo -m` shows either the NVLinks of a pair or its PCIe path
  kSys,      // across CPU sockets (QPI, UPI, Infinity Fabric)
  kNode,     // across PCIe host bridges of one NUMA node
  kPhb,      // through one PCIe host bridge
  kPxb,      // through several PCIe switches
  kPix,      // through one PCIe switch
  kPsb,      // on one board
};

inline constexpr unsigned kMaxNvlinks = 36;           // NVML_NVLINK_MAX_LINKS
inline constexpr unsigned kMaxNvlinkGeneration = 15;  // 5 today

struct Link {
  PciePath path = PciePath::kUnknown;
  std::uint8_t nvlinks = 0;     // 0 .. kMaxNvlinks
  std::uint8_t generation = 0;  // of NVLink: 1 Pascal .. 5 Blackwell; 0 exactly when there are none
  bool nvswitch = false;        // the NVLinks end in switches, shared by all peers

  friend bool operator==(const Link&, const Link&) = default;
};

// "SYS", ..., "PSB"; "-" for kUnknown.
std::string_view to_string(PciePath path);
std::optional<PciePath> parse_pcie_path(std::string_view text);

// What `topo -m` shows: "NV2" or the PCIe path.
std::string short_name(const Link& link);

// All of it, for our JSON: "NV2:2/PIX", "NV12s:3" (generation 3, via NVSwitch), "SYS".
std::string full_name(const Link& link);
std::optional<Link> parse_full_name(std::string_view text);

// In a person's words: "Two NVLinks", "Cross CPU socket"; the descriptions of the GPU_TOPOLOGY annotation.
std::string describe(const Link& link);

}  // namespace tessera::topology
