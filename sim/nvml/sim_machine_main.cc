// tessera-sim-machine: creates a directory that looks like a machine with GPUs (machine_tree.h).
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "base/version.h"
#include "machine_tree.h"

namespace {

// Returns the library in ../lib (installed) or in the directory of this program (unpacked).
std::string library_near_program() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const char* place : {"../lib/libnvidia-ml.so.1", "libnvidia-ml.so.1"}) {
    const auto path = (program.parent_path() / place).lexically_normal();
    if (std::filesystem::exists(path, error)) {
      return path.string();
    }
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  tessera::nvml_sim::TreeOptions options;
  options.library = library_near_program();
  CLI::App app("Create a directory that looks like a machine with NVIDIA GPUs", "tessera-sim-machine");
  app.set_version_flag("--version", "tessera-sim-machine " + std::string(tessera::version()));
  app.add_option("--dir,-d", options.directory, "The directory; run again to apply a changed control file")
      ->required();
  app.add_option("--machine,-m", options.machine,
                 "A built-in machine (dgx1v, hgxh100, ...) or the path of a description");
  std::vector<std::string> exceptions;
  app.add_option("--machine-of", exceptions,
                 "NODE=MACHINE: use another machine for this node; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--node,-n", options.node, "Name of the node; GPU UUIDs are derived from it");
  app.add_option("--library", options.library, "The simulated libnvidia-ml.so.1 to copy into the directory");
  app.footer("Example:\n  tessera-sim-machine --machine dgx1v --node gpu-a --dir /tmp/gpu-a");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const std::string& exception : exceptions) {
    const std::size_t equals = exception.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == exception.size()) {
      std::cerr << "tessera-sim-machine: --machine-of " << exception << ": use NODE=MACHINE\n";
      return 2;
    }
    if (exception.substr(0, equals) == options.node) {
      options.machine = exception.substr(equals + 1);
    }
  }
  const std::string target =
      options.directory + "/" + tessera::nvml_sim::kLibraryDirectory + "/" + tessera::nvml_sim::kLibraryName;
  std::error_code error;
  if (options.library.empty() && !std::filesystem::exists(target, error)) {
    std::cerr
        << "tessera-sim-machine: cannot find the simulated libnvidia-ml.so.1, neither in the directory of "
           "this program nor in ../lib; build the target nvml_sim "
           "(cmake --build --preset dev --target nvml_sim), or set the path with --library\n";
    return 1;
  }
  if (const auto made = tessera::nvml_sim::make_machine(options); !made) {
    std::cerr << "tessera-sim-machine: " << made.error().text() << "\n";
    return 1;
  }
  std::cout << options.directory << ": NVML library " << target << ", control file " << options.directory
            << "/control.yaml\n";
  return 0;
}
