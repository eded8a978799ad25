// agent/devices/start_gate.h
//
// Answers PreStartContainer for one kind of device: decides whether a container may start now, with
// the devices decided for it.
//
//   StartGate gate(context, recovery);
//   gate.pre_start("aliyun.com/gpu-mem", ids, [](Status may_start) { ... });
//
// An error is not final: kubelet shows it to the user and calls again, first after about a second
// and later every ten seconds.
//
// All calls are made on the event loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/allocation_recovery.h"
#include "agent/devices/kind_context.h"
#include "agent/devices/loop_gate.h"

namespace tessera::agent {

struct StartCounts {
  std::uint64_t started = 0;
  std::uint64_t blocked = 0;  // PreStartContainer returned an error
};

class StartGate {
 public:
  // `recovery` must outlive this object.
  StartGate(const KindContext& context, AllocationRecovery& recovery);
  StartGate(const StartGate&) = delete;
  StartGate& operator=(const StartGate&) = delete;

  // Answers PreStartContainer for the container that has `ids`. Calls `done` once, on the loop,
  // with the reason if the container may not start.
  void pre_start(const std::string& resource, std::vector<std::string> ids, Done<Status> done);

  [[nodiscard]] const StartCounts& counts() const { return counts_; }

 private:
  // A PreStartContainer call that is not answered yet.
  struct Start {
    std::string resource;
    std::vector<std::string> ids;  // sorted
    Done<Status> done;
    std::vector<std::string> to_ask;  // UIDs of pods that may hold the IDs; the last one is asked next
    int tries = 0;
    http::Timer pause;

    bool try_again(const Result<PodDevices>& answer);
  };
  struct Holder {
    const NodePod* pod;
    std::string container;
  };

  // Find the container that has the IDs (start_gate_identify.cc).
  void identify(const std::shared_ptr<Start>& start);
  [[nodiscard]] const Allocation* starting_allocation(const Start& start) const;
  [[nodiscard]] const Allocation* unlisted_allocation(const Start& start) const;
  void verified(const std::shared_ptr<Start>& start, const ContainerName& expected,
                const Result<PodDevices>& answer);
  [[nodiscard]] std::optional<Holder> holder_by_checkpoint(const Start& start, const std::string& likely_uid,
                                                           const std::string& likely_container) const;
  void ask_next_pod(const std::shared_ptr<Start>& start);

  // Decide whether the container may start.
  void check(const std::shared_ptr<Start>& start, const NodePod& pod, const std::string& container);
  [[nodiscard]] bool is_static_pod(const Start& start) const;
  void check_unlisted(const std::shared_ptr<Start>& start, const Allocation& allocation);
  [[nodiscard]] std::optional<StartBlock> find_block(const NodePod& pod, const std::string& container,
                                                     const IdsByResource& ids);
  void update_allocations(const NodePod& pod);
  [[nodiscard]] Decision decide(const NodePod& pod, const std::string& container,
                                const IdsByResource& ids) const;
  [[nodiscard]] bool can_update(const Allocation* allocation) const;
  [[nodiscard]] std::optional<StartBlock> unhealthy_block(const std::vector<DeviceShare>& shares) const;
  Status prepare(const NodePod& pod, const std::string& container, const Decided& decided);
  void prepare_others(const NodePod& pod, const std::string& container);
  void finish(const std::shared_ptr<Start>& start, const ContainerName& container, const Status& status);
  void reply(const std::shared_ptr<Start>& start, Status status);

  const KindContext context_;
  Allocations& allocations_;
  AllocationRecovery& recovery_;
  LoopGate gate_;
  StartCounts counts_;
};

}  // namespace tessera::agent
