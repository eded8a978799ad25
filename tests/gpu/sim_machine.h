// A simulated machine with GPUs: a directory with the simulated driver, its control file, /sys and
// /dev. The code under test opens the library as it would open NVIDIA's.
//
//   SimMachine machine("dgx1v");
//   Driver driver(machine.options());
//   machine.control("gpus: {3: {lost: true}}");
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>

#include "../base/temporary_directory.h"
#include "base/file.h"
#include "gpu/driver.h"
#include "machine_tree.h"
#include "sim/machine.h"

namespace tessera::gpu {

using namespace std::chrono_literals;

// A deadline that is long enough for a busy machine. Only a failing test waits until it expires.
inline constexpr auto kPatience = 20s;

// Returns the path of the simulated library. `variant` is "", "/old" or "/none".
inline std::string simulated_library(const std::string& variant = "") {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return (program.parent_path().parent_path() / ("lib" + variant) / "libnvidia-ml.so.1").string();
}

class SimMachine {
 public:
  static constexpr const char* kNode = "gpu-a";

  // `machine` is the name of a built-in machine or the text of a description.
  explicit SimMachine(const std::string& machine, const std::string& variant = "") {
    options_.directory = directory_.path();
    options_.node = kNode;
    options_.library = simulated_library(variant);
    options_.machine = machine;
    if (machine.find('\n') != std::string::npos) {
      options_.machine = directory_ / "machine.yaml";
      require(write_file(options_.machine, machine));
    }
    require(nvml_sim::make_machine(options_));
    described_ = sim::load_machine(options_.machine).value();
  }

  void control(const std::string& yaml) { require(write_file(directory_ / "control.yaml", yaml)); }
  // Updates /sys and /dev from the control file.
  void replug() { require(nvml_sim::make_machine(options_)); }

  [[nodiscard]] const sim::Machine& described() const { return described_; }
  [[nodiscard]] std::string uuid(std::size_t gpu) const { return described_.gpu_uuid(kNode, gpu); }
  [[nodiscard]] std::string path(const std::string& name) const { return directory_ / name; }
  [[nodiscard]] std::string library() const {
    return directory_ / (std::string(nvml_sim::kLibraryDirectory) + "/" + nvml_sim::kLibraryName);
  }

  // Options for a driver with short intervals.
  [[nodiscard]] DriverOptions options() const {
    DriverOptions options;
    options.library = [path = library()] { return path; };
    options.sysfs_root = directory_ / "sys";
    options.event_wait = 20ms;
    options.probe_every = 30ms;
    options.retry = 30ms;
    options.health.settle = 0ms;
    return options;
  }

  // The inventory that the agent of this node should publish: the description, with the network
  // card names from /sys and without the bandwidth between sockets, which no machine reports.
  [[nodiscard]] alloc::Inventory expected() const {
    alloc::Inventory inventory = described_.inventory(kNode, alloc::Unit::gib());
    inventory.topology.socket_mbps = 0;
    for (topology::Nic& nic : inventory.topology.nics) {
      if (!nic.device.empty()) {
        nic.name = std::exchange(nic.device, "");
      }
    }
    return inventory;
  }

 private:
  static void require(const Status& status) {
    if (!status) {
      throw std::runtime_error(status.error().text());
    }
  }

  TemporaryDirectory directory_;
  nvml_sim::TreeOptions options_;
  sim::Machine described_;
};

// Returns why a GPU is unhealthy, "" if it is healthy, or "-" if it is not in the inventory.
inline std::string reason(const DriverState& state, const std::string& uuid) {
  const auto found = state.inventory.find_uuid(uuid);
  return found ? state.inventory.gpus[*found].unhealthy : "-";
}

inline std::function<bool(const DriverState&)> is_unhealthy(const std::string& uuid) {
  return [uuid](const DriverState& state) { return state.ready && !reason(state, uuid).empty(); };
}
inline std::function<bool(const DriverState&)> is_healthy(const std::string& uuid) {
  return [uuid](const DriverState& state) { return state.ready && reason(state, uuid).empty(); };
}

}  // namespace tessera::gpu
