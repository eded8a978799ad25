// A directory that looks like a machine with GPUs, for programs that are told where to look:
//
//   DIR/sys                                            --sysfs-root
//   DIR/dev/nvidia0 ...                                --dev-root; device nodes where we may make them
//   DIR/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1     --nvml-library; DIR itself is the --driver-root
//   DIR/usr/lib/x86_64-linux-gnu/tessera-sim.yaml      which machine the library plays
//   DIR/control.yaml                                   what is wrong with it
#pragma once

#include <string>

#include "base/result.h"
#include "control.h"
#include "machine_sysfs.h"
#include "sim/machine.h"

namespace tessera::nvml_sim {

inline constexpr const char* kLibraryDirectory = "usr/lib/x86_64-linux-gnu";
inline constexpr const char* kLibraryName = "libnvidia-ml.so.1";

struct TreeOptions {
  std::string directory;
  std::string machine;  // a built-in name or a path; empty: what the directory already holds
  std::string node;     // empty: as before, or "node"
  std::string library;  // the simulated library to copy there; empty: none is copied
};

// Makes the directory, or brings it in line with its control file: a GPU under `removed` loses its device
// node and its place in sys. A control file that is there is kept.
Status make_machine(const TreeOptions& options);

// Makes what stands below `root` equal to `tree`, entry by entry, so that readers never see it empty.
Status write_tree(const Tree& tree, const std::string& root);

// The device nodes of the driver and of the GPUs that are plugged in. Plain files where mknod is not allowed.
Status write_devices(const sim::Machine& machine, const std::set<unsigned>& removed, const std::string& root);

}  // namespace tessera::nvml_sim
