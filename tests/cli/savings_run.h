// tests/cli/savings_run.h
//
// Runs `tessera savings` on a GpuCluster and its measurements.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>

#include "cli/savings/savings.h"
#include "gpu_cluster.h"
#include "program.h"

namespace tessera::cli {

inline Outcome savings(SavingsOptions options, const GpuCluster& cluster) {
  std::ostringstream out;
  std::ostringstream err;
  options.cluster.file = cluster.write();
  options.usage = cluster.usage_file();
  const int code = run_savings(options, out, err, {});
  return {code, out.str(), err.str()};
}

inline SavingsView view_of(SavingsOptions options, const GpuCluster& cluster) {
  options.cluster.file = cluster.write();
  options.usage = cluster.usage_file();
  auto view = make_savings(options);
  EXPECT_TRUE(view) << view.error().text();
  return view ? *std::move(view) : SavingsView{};
}

inline SavingsReport report_of(const SavingsOptions& options, const GpuCluster& cluster) {
  return view_of(options, cluster).report;
}

inline std::string reason_of(const SavingsReport& report, const std::string& pod) {
  for (const SavingsPod& one : report.pods) {
    if (one.text() == pod) {
      return one.whole ? std::string(to_string(*one.whole)) : "shares";
    }
  }
  return "not counted";
}

// Four pods of 2048 MiB: 2048 * 1.2 + 512 = 2969.6 MiB, so 3 units each and 12 of 15 together.
// Their utilization of 10% is 10 / 80 of what a GPU may have, rounded up 13% each, 52% together.
inline void fill_small(GpuCluster& cluster) {
  cluster.node("a", {.gpus = 4});
  for (const char* name : {"ml/p0", "ml/p1", "ml/p2", "ml/p3"}) {
    cluster.pod(name, "a", {.memory_mib = 2048, .utilization = 10});
  }
}

// Two T4 nodes with one GPU each, and one node with two A100: each model needs one GPU for its two
// pods of 3 units. The pods of one T4 node move to the other, so that node is free.
//   freed: 1 T4 and 1 A100 = 0.5 + 3 = 3.50 per hour, 2,555 per month of 730 hours
//   nodes: 1 node with 1 T4 = 0.50 per hour, 365 per month
inline void fill_two_models(GpuCluster& cluster) {
  cluster.node("t4-1", {.gpus = 1});
  cluster.node("t4-2", {.gpus = 1});
  cluster.node("a100", {.gpus = 2, .model = "NVIDIA-A100-SXM4-80GB", .memory_mib = 81920});
  cluster.pod("ml/small-1", "t4-1", {.memory_mib = 2048, .utilization = 5});
  cluster.pod("ml/small-2", "t4-2", {.memory_mib = 2048, .utilization = 5});
  cluster.pod("ml/large-1", "a100", {.memory_mib = 2048, .utilization = 5});
  cluster.pod("ml/large-2", "a100", {.memory_mib = 2048, .utilization = 5});
}

}  // namespace tessera::cli
