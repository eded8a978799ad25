// Creates a directory that looks like a machine with GPUs. Programs find its parts through these
// options:
//
//   DIR/sys                                          --sysfs-root
//   DIR/dev/nvidia0 ...                              --dev-root; device nodes if mknod is allowed
//   DIR/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1   --nvml-library; DIR is the --driver-root
//   DIR/usr/lib/x86_64-linux-gnu/tessera-sim.yaml    settings of the library
//   DIR/control.yaml                                 the current faults
#pragma once

#include <string>

#include "base/result.h"
#include "control.h"
#include "machine_sysfs.h"
#include "sim/machine.h"

namespace tessera::nvml_sim {

#if defined(__aarch64__)
inline constexpr const char* kLibraryDirectory = "usr/lib/aarch64-linux-gnu";
#else
inline constexpr const char* kLibraryDirectory = "usr/lib/x86_64-linux-gnu";
#endif
inline constexpr const char* kLibraryName = "libnvidia-ml.so.1";

struct TreeOptions {
  std::string directory;
  std::string machine;  // a built-in name or a path; empty: keep the machine of the directory
  std::string node;     // empty: keep the node of the directory, or "node"
  std::string library;  // the simulated library to copy; empty: copy none
};

// Creates the directory. If it already exists, updates it from its control file: GPUs that the file
// lists in `removed` lose their device nodes and their entries in sys. Keeps an existing control
// file.
Status make_machine(const TreeOptions& options);

// Changes the files below `root` so that they match `tree`. Replaces them one by one, so that
// readers never see an empty directory.
Status write_tree(const Tree& tree, const std::string& root);

// Creates the device nodes of the driver and of the plugged-in GPUs. Creates plain files if mknod
// is not allowed.
Status write_devices(const sim::Machine& machine, const std::set<unsigned>& removed, const std::string& root);

}  // namespace tessera::nvml_sim
