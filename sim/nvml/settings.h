// Which machine this library plays. Told by the environment:
//   TESSERA_SIM_MACHINE   a built-in machine, or the path of a description
//   TESSERA_SIM_NODE      the node's name, from which the UUIDs follow (default: node)
//   TESSERA_SIM_CONTROL   the control file (default: none)
// or, when TESSERA_SIM_MACHINE is not set, by the file tessera-sim.yaml beside the library, whose paths are
// relative to it:
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

// The file itself; `directory` is where relative paths begin.
Result<Settings> parse_settings(const std::string& yaml, const std::string& directory);

}  // namespace tessera::nvml_sim
