// Measures the real agent program over its real sockets against its performance targets: memory,
// CPU time while idle, time from start to the first device list, time from a restart of kubelet to
// the registration of all resources, and how long kubelet waits per container.
//
//   build/release/bench/agent_bench    # idles for 60 seconds; set AGENT_BENCH_IDLE to change that
//
// This process acts as kubelet and API server, so the times include the round trip. The machine is
// a DGX-1 with a unit of 256 MiB: 1,024 device IDs.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include "../agent/devices/fake_kubelet.h"
#include "../base/temporary_directory.h"
#include "agent_bench_node.h"
#include "base/file.h"
#include "machine_tree.h"
#include "sim/machine.h"

namespace tessera::agent {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::size_t kShares = 1024;
constexpr int kKnownPods = 960;
constexpr int kLatePods = 40;
constexpr int kStarts = 5;
constexpr int kResources = 3;

Milliseconds took(const std::function<void()>& what) {
  const auto begun = std::chrono::steady_clock::now();
  what();
  return std::chrono::steady_clock::now() - begun;
}

void line(const std::string& what, double measured, const char* unit, double bar) {
  fmt::print("{:<58} {:>9.3f} {:<3} bar {:>7.1f} {:<3} ratio {:.3f}{}\n", what, measured, unit, bar, unit,
             measured / bar, measured <= bar ? "" : "   MISSED");
  std::fflush(stdout);
}

double percentile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(part * static_cast<double>(values.size())))];
}

class Bench {
 public:
  Bench()
      : resources_((std::filesystem::create_directories(root_ / "pod-resources"),
                    root_ / "pod-resources/kubelet.sock")) {
    start_kubelet();
    const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
    agent_ = program / "bin/tessera-agent";
    require(nvml_sim::make_machine({.directory = machine_.path(),
                                    .machine = "dgx1v",
                                    .node = kBenchNode,
                                    .library = (program / "lib/libnvidia-ml.so.1").string()}));
    require(write_file(
        root_ / "kubeconfig",
        fmt::format(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
            "contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\nusers: [{{name: a, user: {{}}}}]\n"
            "clusters: [{{name: a, cluster: {{server: \"http://127.0.0.1:{}\"}}}}]\n",
            api_.port())));
    const sim::Machine described = sim::load_machine("dgx1v").value();
    for (std::size_t gpu = 0; gpu < described.gpus.size(); ++gpu) {
      gpus_.push_back(described.gpu_uuid(kBenchNode, gpu));
    }
  }

  void run(double idle_seconds) {
    starts();
    BenchProcess agent(command());
    wait_for_list();
    restarts();
    idle(agent, idle_seconds, "no pods");
    known_pods();
    late_pods();
    idle(agent, idle_seconds, fmt::format("{} pods", kKnownPods + kLatePods));
  }

 private:
  static void require(const Status& status) {
    if (!status) {
      throw std::runtime_error(status.error().text());
    }
  }

  [[nodiscard]] std::vector<std::string> command() const {
    return {agent_,
            "--node-name",
            kBenchNode,
            "--drain-timeout",
            "0s",
            "--listen",
            "127.0.0.1:0",
            "--unit",
            "256MiB",
            "--log-level",
            "error",
            "--kubeconfig",
            root_ / "kubeconfig",
            "--kubelet-dir",
            root_.path(),
            "--state-dir",
            root_ / "state",
            "--driver-root",
            machine_.path(),
            "--sysfs-root",
            machine_ / "sys",
            "--dev-root",
            machine_ / "dev"};
  }

  void wait_for_list() {
    const auto list =
        kubelet_->wait_for_devices([](const auto& devices) { return devices.size() == kShares; });
    if (list.size() != kShares) {
      throw std::runtime_error("the agent sent no device list; run it manually to see the reason: " + agent_);
    }
    free_.clear();
    for (const Device& device : list) {
      free_.insert(device.id);
    }
  }

  void starts() {
    double worst = 0;
    for (int i = 0; i < kStarts; ++i) {
      std::unique_ptr<BenchProcess> agent;
      kubelet_->forget_lists();
      const Milliseconds time = took([&] {
        agent = std::make_unique<BenchProcess>(command());
        wait_for_list();
      });
      worst = std::max(worst, time.count());
    }
    line(fmt::format("start to device list at kubelet, worst of {}", kStarts), worst, "ms", 500);
  }

  // kubelet is away longer each time. The agent's back-off must not carry over to the next restart.
  void restarts() {
    double worst = 0;
    for (int i = 0; i < kStarts; ++i) {
      kubelet_.reset();
      std::this_thread::sleep_for(std::chrono::seconds(i));
      const Milliseconds time = took([&] {
        start_kubelet();
        kubelet_->wait_for_registrations(kResources);
      });
      worst = std::max(worst, time.count());
      wait_for_list();
    }
    line(fmt::format("kubelet's start to all resources registered, worst of {}", kStarts), worst, "ms", 500);
  }

  void start_kubelet() {
    kubelet_.emplace(root_ / "device-plugins");
    kubelet_->use("aliyun.com/gpu-mem");
  }

  static void idle(const BenchProcess& agent, double seconds, const std::string& with) {
    const double before = agent.cpu_seconds();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    line(fmt::format("CPU while idle for {:.0f} s, {}", seconds, with),
         100 * (agent.cpu_seconds() - before) / seconds, "%", 1);
    line(fmt::format("memory (RSS), {}", with), agent.resident_mb(), "MB", 25);
  }

  // Makes the three calls of kubelet for the next pod.
  void serve_next(std::vector<double>& prefer, std::vector<double>& allocate, std::vector<double>& start) {
    resources_.admit(++admitted_);
    const std::string& gpu = gpus_[static_cast<std::size_t>(admitted_ - 1) % gpus_.size()];
    std::vector<std::string> ids;
    v1beta1::ContainerAllocateResponse answer;
    grpc::Status status;
    prefer.push_back(took([&] { status = kubelet_->prefer({free_.begin(), free_.end()}, 1, ids); }).count());
    if (!status.ok() || ids.size() != 1) {
      throw std::runtime_error("no preferred IDs: " + status.error_message());
    }
    allocate.push_back(took([&] { status = kubelet_->allocate(ids, answer); }).count());
    if (!status.ok() || answer.envs().at("NVIDIA_VISIBLE_DEVICES") != gpu) {
      throw std::runtime_error("a pod did not get its GPU: " + status.error_message());
    }
    free_.erase(ids.front());
    start.push_back(took([&] { status = kubelet_->pre_start(ids); }).count());
    if (!status.ok()) {
      throw std::runtime_error("a pod may not start: " + status.error_message());
    }
  }

  void report(const std::string& which, double bar, const std::vector<double>& prefer,
              const std::vector<double>& allocate, const std::vector<double>& start) {
    fmt::print("{} pods {}\n", allocate.size(), which);
    const auto median = [](const char* call, const std::vector<double>& values) {
      fmt::print("{:<58} {:>9.3f} ms  worst {:.3f} ms\n", fmt::format("  {}, median", call),
                 percentile(values, 0.5), *std::ranges::max_element(values));
    };
    line("  GetPreferredAllocation, p99", percentile(prefer, 0.99), "ms", bar);
    median("GetPreferredAllocation", prefer);
    line("  Allocate, p99", percentile(allocate, 0.99), "ms", bar);
    median("Allocate", allocate);
    // Only the container itself waits for this call, so it has no target.
    median("PreStartContainer", start);
  }

  void known_pods() {
    for (int i = 0; i < kKnownPods; ++i) {
      api_.bind(fmt::format("p{}", i), gpus_[static_cast<std::size_t>(i) % gpus_.size()], true);
    }
    std::vector<double> prefer;
    std::vector<double> allocate;
    std::vector<double> start;
    for (int i = 0; i < kKnownPods; ++i) {
      serve_next(prefer, allocate, start);
    }
    report("that are known", 5, prefer, allocate, start);
  }

  // The watch is late, so the agent must ask the API server.
  void late_pods() {
    std::vector<double> prefer;
    std::vector<double> allocate;
    std::vector<double> start;
    for (int i = kKnownPods; i < kKnownPods + kLatePods; ++i) {
      api_.bind(fmt::format("p{}", i), gpus_[static_cast<std::size_t>(i) % gpus_.size()], false);
      serve_next(prefer, allocate, start);
      api_.catch_up();
    }
    report("that the API server must be asked for", 500, prefer, allocate, start);
  }

  TemporaryDirectory root_;
  TemporaryDirectory machine_;
  BenchApi api_;
  BenchPodResources resources_;
  std::optional<FakeKubelet> kubelet_;
  std::string agent_;
  std::vector<std::string> gpus_;
  std::set<std::string> free_;
  int admitted_ = 0;
};

}  // namespace
}  // namespace tessera::agent

int main() {
  const char* idle = std::getenv("AGENT_BENCH_IDLE");
  try {
    tessera::agent::Bench().run(idle == nullptr ? 60 : std::strtod(idle, nullptr));
  } catch (const std::exception& error) {
    fmt::print(stderr, "agent_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
