// Tests of the simulated driver: its control file and the directory of a simulated machine.
#include "control.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "sim_machine.h"

namespace tessera::nvml_sim {
namespace {

using testing::HasSubstr;

TEST(Control, AnEmptyFileMeansAHealthyMachine) {
  for (const char* text : {"", "# nothing\n", "gpus:\n", "events: []\n"}) {
    const auto control = Control::parse(text, 8);
    ASSERT_TRUE(control) << control.error().text();
    EXPECT_TRUE(control->events.empty());
    EXPECT_FALSE(control->gpu(3).lost);
  }
}

TEST(Control, ErrorsNameTheLineAndTheReason) {
  struct Case {
    const char* text;
    const char* expected;
  };
  for (const Case& c : {
           Case{"gpu: {}", "\"gpu\" is not a key of the control file"},
           Case{"gpus: {8: {lost: true}}", "\"8\" is not a GPU of this machine, which has 8"},
           Case{"a: 1\ngpus:\n  0: {lost: yes}", "line 1"},
           Case{"gpus:\n  0: {lost: maybe}", "line 2: lost is neither true nor false"},
           Case{"gpus: {0: {colour: red}}", "\"colour\""},
           Case{"events: [{gpu: 0}]", "needs a gpu and an xid"},
           Case{"events: [{xid: 3}]", "needs a gpu"},
           Case{"events: {}", "events is not a list"},
           Case{"order: [1, 1]", "names GPU 1 twice"},
           Case{"hang: [read]", "not an NVML function"},
           Case{"init: never", "init is not a whole number"},
           Case{"slow: {nvmlInit: -1}", "slow is not"},
           Case{"gpus: {0: {processes: [{pid: 0}]}}", "pid is not"},
           Case{"gpus: [", "control file:"},
           Case{"- 1", "not a map"},
       }) {
    const auto control = Control::parse(c.text, 8);
    ASSERT_FALSE(control) << c.text;
    EXPECT_THAT(control.error().text(), HasSubstr(c.expected));
  }
}

TEST(SimulatedDriver, KeepsItsStateIfTheControlFileIsInvalid) {
  gpu::SimMachine machine("l40s");
  machine.control("gpus: {0: {mig: true}}");
  const gpu::Driver driver(machine.options());
  driver.wait_ready(gpu::kPatience);
  machine.control("gpus: {0: {mig: tr");
  machine.control("gpus: {0: {mig: true}, 1: {mig: true}}");
  const auto state = driver.wait_for(gpu::kPatience, gpu::is_unhealthy(machine.uuid(1)));
  EXPECT_EQ(state->inventory.unhealthy_list(), "0,1");
}

TEST(SimulatedDriver, ExportsOnlyNvmlFunctions) {
  void* handle = ::dlopen(gpu::simulated_library().c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr);
  EXPECT_NE(::dlsym(handle, "nvmlInit_v2"), nullptr);
  EXPECT_EQ(::dlsym(handle, "_ZN7tessera8nvml_sim9SimDriver8instanceEv"), nullptr);
  EXPECT_EQ(::dlsym(handle,
                    "_ZN7tessera3sim12load_machineERKNSt7__cxx1112basic_stringIcSt11char_"
                    "traitsIcESaIcEEE"),
            nullptr);
  ::dlclose(handle);
}

TEST(SimulatedMachine, HasDeviceNodesWithTheMinorsOfItsGpus) {
  const gpu::SimMachine machine("mixed");
  for (const alloc::Gpu& gpu : machine.expected().gpus) {
    const std::string path = machine.path("dev/nvidia" + std::to_string(gpu.minor));
    struct stat status{};
    ASSERT_EQ(::lstat(path.c_str(), &status), 0) << path;
    if (S_ISCHR(status.st_mode)) {
      EXPECT_EQ(status.st_rdev & 0xFFU, static_cast<unsigned>(gpu.minor));
    }
  }
  EXPECT_TRUE(std::filesystem::exists(machine.path("dev/nvidiactl")));
  EXPECT_TRUE(std::filesystem::exists(machine.path("dev/nvidia-uvm")));
}

TEST(SimulatedMachine, KeepsItsMachineWhenCreatedAgain) {
  const TemporaryDirectory directory;
  TreeOptions options{.directory = directory.path(), .machine = "dgx2", .node = "n", .library = ""};
  ASSERT_TRUE(make_machine(options));
  options.machine = "";
  options.node = "";
  ASSERT_TRUE(make_machine(options));
  EXPECT_TRUE(std::filesystem::exists(directory / "dev/nvidia15"));
  const auto nothing =
      make_machine({.directory = directory / "new", .machine = "", .node = "", .library = ""});
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().text(), HasSubstr("--machine"));
}

}  // namespace
}  // namespace tessera::nvml_sim
