// Measures gpu::Driver on simulated machines: time until all GPUs are known, cost of state(), CPU
// time while idle. The simulated library answers from memory, so these are only our own costs; a
// real driver adds its own.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <thread>

#include "../base/temporary_directory.h"
#include "gpu/driver.h"
#include "machine_tree.h"

namespace {

using namespace std::chrono_literals;
using tessera::gpu::Driver;
using tessera::gpu::DriverOptions;

class Machine {
 public:
  explicit Machine(const std::string& name) {
    const auto program = std::filesystem::read_symlink("/proc/self/exe");
    const auto made = tessera::nvml_sim::make_machine(
        {.directory = directory_.path(),
         .machine = name,
         .node = "gpu-a",
         .library = (program.parent_path().parent_path() / "lib/libnvidia-ml.so.1").string()});
    if (!made) {
      throw std::runtime_error(made.error().text());
    }
  }
  [[nodiscard]] DriverOptions options() const {
    DriverOptions options;
    options.library = [path = directory_ / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"] { return path; };
    options.sysfs_root = directory_ / "sys";
    return options;
  }

 private:
  tessera::TemporaryDirectory directory_;
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// From start to inventory: opens the library, reads GPUs, links and network cards.
void start(benchmark::State& state, const std::string& name) {
  const Machine machine(name);
  for (auto _ : state) {
    auto driver = std::make_unique<Driver>(machine.options());
    if (!driver->wait_ready(10s)->ready) {
      state.SkipWithError("the driver did not become ready");
    }
    state.PauseTiming();  // the destructor waits for the current wait for events
    driver.reset();
    state.ResumeTiming();
  }
}

void ask_for_state(benchmark::State& state) {
  const Machine machine("dgx1v");
  const Driver driver(machine.options());
  driver.wait_ready(10s);
  for (auto _ : state) {
    benchmark::DoNotOptimize(driver.state());
  }
}

// CPU time of a driver without calls and events, in percent of a core.
void idle(benchmark::State& state) {
  const Machine machine("dgx1v");
  const Driver driver(machine.options());
  driver.wait_ready(10s);
  for (auto _ : state) {
    const double before = cpu_seconds();
    const auto begun = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(5s);
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    state.counters["core_percent"] = 100 * (cpu_seconds() - before) / wall;
  }
}

BENCHMARK_CAPTURE(start, dgx1v, "dgx1v")->Iterations(5)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(start, dgx2, "dgx2")->Iterations(5)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(ask_for_state);
BENCHMARK(idle)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
