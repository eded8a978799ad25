// agent/gpu/record_guard.h
//
// Keeps the records of started pods correct. If another client removes or changes the record of a
// pod that has started, RecordGuard writes the record again within a second.
//
//   RecordGuard guard(node, kind);
//   guard.check_all();               // after the GPUs or the allocations have changed
//
// A client that changes records in a loop causes at most two writes per pod and second, and at most
// kMostAtOnce writes in one check.
//
// Use it on the event loop's thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/devices/loop_gate.h"
#include "agent/devices/node_context.h"
#include "agent/gpu/gpu_kind.h"
#include "http/event_loop.h"

namespace tessera::agent {

struct RecordGuardOptions {
  std::chrono::milliseconds every{500};          // time between two checks of a pod
  std::chrono::milliseconds retry_after{5'000};  // after a write that failed
};

class RecordGuard final : private PodListener {
 public:
  static constexpr std::size_t kMostAtOnce = 50;

  // `node` and `kind` must outlive this object.
  RecordGuard(const NodeContext& node, GpuKind& kind, RecordGuardOptions options = {});
  RecordGuard(const RecordGuard&) = delete;
  RecordGuard& operator=(const RecordGuard&) = delete;
  ~RecordGuard() override;

  // Checks all pods again, a moment later.
  void check_all();

 private:
  void pod_changed(const NodePod& pod) override;
  void add(const std::string& uid);
  void check();
  void retry_later(const std::string& uid);

  const NodeContext& node_;
  GpuKind& kind_;
  const RecordGuardOptions options_;
  std::vector<std::string> to_check_;  // UIDs, in the order of their changes
  std::vector<std::string> to_retry_;  // UIDs of pods whose write failed
  http::Timer timer_;
  http::Timer retry_timer_;
  LoopGate gate_;
};

}  // namespace tessera::agent
