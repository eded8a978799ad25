// agent/gpu/memory_watch.h
//
// Carries out what MemoryJudge decides: Events, and evictions through the API server, which keeps to
// PodDisruptionBudgets. A refused eviction is tried again at the next sample.
//
// On the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/gpu/memory_judge.h"
#include "agent/gpu/usage.h"
#include "kube/client.h"
#include "kube/event_aggregator.h"

namespace tessera::agent {

class MemoryWatch {
 public:
  using Tell = std::function<void(const kube::EventNote&)>;
  struct Counts {
    std::uint64_t over = 0;  // containers found over their limit
    std::uint64_t evicted = 0;
    std::uint64_t refused = 0;  // evictions, by a PodDisruptionBudget or otherwise
  };

  // The name of any pod of the node by its UID ("ml/train-7"); empty for one that is not known.
  using NameOfPod = std::function<std::string(const std::string& uid)>;

  // `client` must outlive it.
  MemoryWatch(kube::Client& client, std::string node, MemoryRules rules, Tell tell,
              NameOfPod name_of_pod = {});
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // What containers use now, at every sample. `inventory` names the GPUs.
  void look_at(const std::vector<MemoryUse>& uses, const alloc::Inventory& inventory);

  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] const MemoryJudge& judge() const { return judge_; }

 private:
  void carry_out(const MemoryVerdict& verdict, const std::string& gpu);
  void tell_of_stranger(const MemoryUse& use, const std::string& gpu);
  void evict(const MemoryUse& use, const std::string& why);
  void tell_pod(const MemoryUse& use, bool warning, const std::string& reason, const std::string& message);

  kube::Client& client_;
  const std::string node_;
  const MemoryRules rules_;
  Tell tell_;
  const NameOfPod name_of_pod_;
  MemoryJudge judge_;
  Counts counts_;
  std::map<std::string, kube::Call> evictions_;  // under way, by pod UID
  std::set<std::string> evicted_;                // pod UIDs, until they are gone
};

}  // namespace tessera::agent
