// agent/gpu/memory_watch.h
//
// Carries out the verdicts of MemoryJudge: records Events, and evicts pods through the API server,
// which respects PodDisruptionBudgets. A refused eviction is retried with the next sample.
//
// Use it on the event loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/devices/node_context.h"
#include "agent/gpu/memory_judge.h"
#include "agent/gpu/usage.h"
#include "kube/client.h"

namespace tessera::agent {

class MemoryWatch {
 public:
  struct Counts {
    std::uint64_t over = 0;  // times that a container exceeded its limit
    std::uint64_t evicted = 0;
    std::uint64_t refused = 0;  // evictions that a PodDisruptionBudget refused or that failed otherwise
  };

  // `node` must outlive this object.
  MemoryWatch(const NodeContext& node, MemoryRules rules);
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // Checks the current memory use of all containers. Call it with every sample. `inventory` has the
  // names of the GPUs.
  void check(const std::vector<MemoryUse>& uses, const alloc::Inventory& inventory);

  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] const MemoryJudge& judge() const { return judge_; }

 private:
  void carry_out(const MemoryVerdict& verdict, const std::string& gpu);
  void report_unrequested(const MemoryUse& use, const std::string& gpu);
  void evict(const MemoryUse& use, const std::string& why);
  void warn_pod(const MemoryUse& use, const std::string& reason, const std::string& message);

  const NodeContext& node_;
  const MemoryRules rules_;
  MemoryJudge judge_;
  Counts counts_;
  std::map<std::string, kube::Call> evictions_;  // in flight, by pod UID
  std::set<std::string> evicted_;                // UIDs of evicted pods, until the pods are gone
};

}  // namespace tessera::agent
