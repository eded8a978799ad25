// sim/machine.h
//
// A type of GPU machine, read from a description (format: sim/machines/README.md). Used by the
// simulator, by the simulated NVML driver, and to print nodes that exist only in a test cluster.
//
//   const Machine machine = TRY(load_machine("dgx1v"));           // built in
//   const Machine own = TRY(load_machine("./my-box.yaml"));       // a path, or *.yaml
//   const alloc::Inventory inventory = machine.inventory("gpu-a", alloc::Unit::gib());
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/inventory.h"
#include "alloc/units.h"
#include "base/result.h"
#include "topology/topology.h"

namespace tessera::sim {

struct MachineGpu {
  std::string model;
  std::uint32_t memory_mib = 0;
  std::uint32_t reserved_mib = 0;
  std::string compute;       // compute capability: "7.0"
  std::int32_t minor = 0;    // N of /dev/nvidiaN
  std::string pci_bus_id{};  // "00000000:06:00.0", as NVML prints it
};

struct Machine {
  std::string name;
  std::string about;
  std::string driver;
  std::string cuda;
  std::uint32_t cpus = 0;
  std::uint64_t memory_mib = 0;
  std::uint32_t pods = 110;
  std::string uuid_seed;
  std::vector<MachineGpu> gpus;  // by NVML index
  topology::Topology topology;

  // Returns the UUID of GPU number `gpu` of a node. The same arguments give the same UUID in every
  // process. Different nodes, machines and numbers give different UUIDs.
  [[nodiscard]] std::string gpu_uuid(std::string_view node, std::size_t gpu) const;

  // Returns the inventory that tessera-agent would publish for a node of this type.
  [[nodiscard]] alloc::Inventory inventory(std::string_view node, alloc::Unit unit) const;
};

// Parses a description. The machine is named after `file`. Errors start with file and line
// ("my-box.yaml:12: ..."). `read_beside` returns the text of the file that the setting `links.topo`
// names.
using ReadBeside = std::function<Result<std::string>(const std::string& file)>;
Result<Machine> parse_machine(std::string_view yaml, const std::string& file, const ReadBeside& read_beside);

// Loads a built-in machine by name, or a file by path.
Result<Machine> load_machine(const std::string& name_or_path);

// Returns the names of the built-in machines, sorted.
std::vector<std::string> builtin_machines();

}  // namespace tessera::sim
