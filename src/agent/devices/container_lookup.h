// agent/devices/container_lookup.h
//
// Finds the container that kubelet asks for. kubelet's calls carry a resource and a number of IDs,
// but no name.
//
// kubelet admits one pod at a time, its containers in order, and podresources Get knows the pod
// being admitted but not the pods that wait behind it. So the next pod in bind order is a guess,
// and one Get confirms it. When no known pod fits, the watch is late (often by a few milliseconds),
// and the API server is asked.
//
// Kubelets before 1.34 have no Get. There only the bind order is known, and PreStartContainer finds
// mistakes.
//
// On the event loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/allocation_recovery.h"
#include "agent/devices/kind_context.h"
#include "agent/devices/loop_gate.h"
#include "agent/devices/node_pods.h"

namespace tessera::agent {

// What kubelet's call says about the container.
struct LookupQuery {
  std::string resource;
  std::size_t size = 0;  // number of IDs that the container requests
};

struct FoundContainer {
  std::string pod_uid;
  std::string container;
  bool confirmed = false;  // by kubelet; else the best guess
};

struct LookupCounts {
  std::uint64_t confirmed = 0;
  std::uint64_t guessed = 0;  // kubelet could not be asked
  std::uint64_t unknown = 0;  // no pod fits
  std::uint64_t fetched = 0;  // the watch was late
};

class ContainerLookup final : private PodListener {
 public:
  using FoundDone = Done<std::optional<FoundContainer>>;

  // `recovery` must outlive it.
  ContainerLookup(const KindContext& context, AllocationRecovery& recovery);
  ~ContainerLookup() override;
  ContainerLookup(const ContainerLookup&) = delete;
  ContainerLookup& operator=(const ContainerLookup&) = delete;

  // `done` is called within 450 ms, possibly before find() returns. Nothing: no pod fits.
  void find(const LookupQuery& query, FoundDone done);

  // Looks again for containers whose pod was not known. Called by NodePods for each new pod, and to
  // be called when AllocationRecovery has recovered allocations.
  void retry_waiting();

  // The container of `pod` that kubelet asks for next with this query; empty when there is none.
  [[nodiscard]] std::string next_container(const NodePod& pod, const LookupQuery& query) const;

  [[nodiscard]] const LookupCounts& counts() const { return counts_; }
  // Whether this kubelet has Get (1.34 and later), judged by its last answer.
  [[nodiscard]] bool has_get() const { return has_get_; }

 private:
  struct Search;

  void pod_changed(const NodePod& /*pod*/) override { retry_waiting(); }

  void step(const std::shared_ptr<Search>& search);
  void confirm(const std::shared_ptr<Search>& search, const NodePod& pod);
  void confirmed(const std::shared_ptr<Search>& search, const std::string& uid,
                 const Result<PodDevices>& answer);
  void step_after_error(const std::shared_ptr<Search>& search, const std::string& uid, ErrorCode code);
  void fetch_or_readmit(const std::shared_ptr<Search>& search);
  void guess(const std::shared_ptr<Search>& search);
  void finish(const std::shared_ptr<Search>& search, std::optional<FoundContainer> found);
  [[nodiscard]] const NodePod* candidate(const Search& search) const;
  [[nodiscard]] const NodePod* candidate_for_readmission(const Search& search) const;

  const NodeContext& node_;
  const Allocations& allocations_;
  AllocationRecovery& recovery_;
  LoopGate gate_;
  std::vector<std::shared_ptr<Search>> open_;
  LookupCounts counts_;
  bool has_get_ = true;
};

}  // namespace tessera::agent
