// Settings of the simulated library: which machine it simulates. Read from the environment:
//   TESSERA_SIM_MACHINE   a built-in machine, or the path of a description
//   TESSERA_SIM_NODE      the node's name, from which the UUIDs are derived (default: node)
//   TESSERA_SIM_CONTROL   the control file (default: none)
// If TESSERA_SIM_MACHINE is not set, all settings are read from the file tessera-sim.yaml in the
// directory of the library. Paths in the file are relative to that directory:
//   machine: dgx1v
//   node: gpu-a
//   control: ../control.yaml
#pragma once

#include <string>

#include "base/result.h"

namespace tessera::nvml_sim {

struct Settings {
  std::string machine;
  std::string node = "node";
  std::string control;  // empty: none
};

inline constexpr const char* kSettingsFile = "tessera-sim.yaml";

Result<Settings> read_settings();

// Parses the file. Relative paths start at `directory`.
Result<Settings> parse_settings(const std::string& yaml, const std::string& directory);

}  // namespace tessera::nvml_sim
