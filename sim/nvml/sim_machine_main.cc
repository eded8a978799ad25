// tessera-sim-machine: makes a directory that looks like a machine with GPUs (machine_tree.h).
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "base/version.h"
#include "machine_tree.h"

namespace {

// Beside this program as it is installed (../lib) or unpacked (the same folder).
std::string library_beside_program() {
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
  options.library = library_beside_program();
  CLI::App app("Makes a directory that looks like a machine with NVIDIA GPUs", "tessera-sim-machine");
  app.set_version_flag("--version", "tessera-sim-machine " + std::string(tessera::version()));
  app.add_option("--dir,-d", options.directory,
                 "Where to make it; run again to follow a changed control file")
      ->required();
  app.add_option("--machine,-m", options.machine,
                 "A built-in machine (dgx1v, hgxh100, ...) or the path of a description");
  std::vector<std::string> exceptions;
  app.add_option("--machine-of", exceptions, "NODE=MACHINE: what this one node is instead; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--node,-n", options.node, "Name of the node; the GPUs' UUIDs follow from it");
  app.add_option("--library", options.library, "The simulated libnvidia-ml.so.1 to put there");
  app.footer("Example:\n  tessera-sim-machine --machine dgx1v --node gpu-a --dir /tmp/gpu-a");
  CLI11_PARSE(app, argc, argv);
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
  if (const auto made = tessera::nvml_sim::make_machine(options); !made) {
    std::cerr << "tessera-sim-machine: " << made.error().text() << "\n";
    return 1;
  }
  std::cout << options.directory << ": NVML library " << options.directory << "/"
            << tessera::nvml_sim::kLibraryDirectory << "/" << tessera::nvml_sim::kLibraryName
            << ", control file " << options.directory << "/control.yaml\n";
  return 0;
}
