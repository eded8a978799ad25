// sim/machine.h
//
// A kind of GPU machine, read from a description (sim/machines/README.md has the format): for the simulator,
// the simulated NVML driver, and for printing nodes that exist only in a test cluster.
//
//   const Machine machine = TRY(load_machine("dgx1v"));           // built in
//   const Machine own = TRY(load_machine("./my-box.yaml"));       // has a slash or ends in .yaml: a file
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
  std::string compute;       // capability, "7.0"
  std::int32_t minor = 0;    // of /dev/nvidiaN
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

  // The UUID of a GPU of a node: the same in every process, different for every node, machine and index.
  [[nodiscard]] std::string gpu_uuid(std::string_view node, std::size_t gpu) const;

  // What tessera-agent would publish for a node of this kind.
  [[nodiscard]] alloc::Inventory inventory(std::string_view node, alloc::Unit unit) const;
};

// Reads a description. `name` is the machine's name and stands in errors with the line: "my-box.yaml:12:
// ...". `read_beside` gives the text of the file that `links.topo` names.
using ReadBeside = std::function<Result<std::string>(const std::string& file)>;
Result<Machine> parse_machine(std::string_view yaml, const std::string& file, const ReadBeside& read_beside);

// A built-in machine by name, or a file by path.
Result<Machine> load_machine(const std::string& name_or_path);

// The names of the built-in ones, sorted.
std::vector<std::string> builtin_machines();

}  // namespace tessera::sim
