// agent/devices/container_lookup.h
//
// Finds the container that a kubelet call is for. The call gives the resource and the count of IDs,
// but no pod or container name.
//
// kubelet admits one pod at a time, and the containers of a pod in order. kubelet's podresources
// Get succeeds for the pod that is being admitted, but not for pods that still wait. So the lookup
// takes the next pod in bind order as a guess, and confirms the guess with one Get. If no known pod
// matches, the watch has probably not delivered the pod yet. The lookup then fetches the pods from
// the API server.
//
// In kubelets before 1.34, Get is off by default. Without Get, the lookup relies on the bind order
// alone. A wrong guess is detected when kubelet calls PreStartContainer.
//
// All calls are made on the event loop's thread.
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

// The facts in a kubelet call about the container that the call is for.
struct LookupQuery {
  std::string resource;
  std::size_t size = 0;  // number of IDs that the container requests
};

struct FoundContainer {
  std::string pod_uid;
  std::string container;
  bool confirmed = false;  // true: kubelet confirmed the container; false: it is a guess
};

// Numbers of lookups. Each finished lookup is counted in one of the first three.
struct LookupCounts {
  std::uint64_t confirmed = 0;  // kubelet confirmed the container
  std::uint64_t guessed = 0;    // kubelet did not confirm the container
  std::uint64_t unknown = 0;    // no pod matches
  std::uint64_t fetched = 0;    // no known pod matched, so pods were fetched from the API server
};

class ContainerLookup final : private PodListener {
 public:
  using FoundDone = Done<std::optional<FoundContainer>>;

  // `recovery` must outlive this object.
  ContainerLookup(const KindContext& context, AllocationRecovery& recovery);
  ~ContainerLookup() override;
  ContainerLookup(const ContainerLookup&) = delete;
  ContainerLookup& operator=(const ContainerLookup&) = delete;

  // Finds the container that a call is for. Calls `done` within 450 ms, possibly before find()
  // returns. If kubelet does not confirm a pod in this time, the result is the most likely container,
  // with `confirmed` false. The result is nullopt if no pod matches.
  void find(const LookupQuery& query, FoundDone done);

  // Continues the searches that have not found a pod yet. The lookup calls this for each pod that
  // changes. Other callers call it after AllocationRecovery has recovered allocations.
  void retry_waiting();

  // Returns the container of `pod` for which kubelet would make this call next; empty if there is
  // none.
  [[nodiscard]] std::string next_container(const NodePod& pod, const LookupQuery& query) const;

  [[nodiscard]] const LookupCounts& counts() const { return counts_; }
  // Returns whether this kubelet has Get (1.34 and later), according to its last answer.
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
