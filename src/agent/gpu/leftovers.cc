#include "agent/gpu/leftovers.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "agent/devices/process_container.h"
#include "agent/gpu/record_repair.h"
#include "base/clock.h"

namespace tessera::agent {

namespace {

// A process of a pod that has ended may begin to use its GPU until kubelet has ended the process.
constexpr std::chrono::seconds kMayLinger{60};

Holding holding_of(const Allocation& allocation) {
  alloc::ContainerShares given{.container = allocation.container, .shares = record_shares(allocation.shares)};
  return {.pod = allocation.pod.namespace_name + "/" + allocation.pod.name,
          .record = {.containers = {std::move(given)}}};
}

}  // namespace

Leftovers::Leftovers(http::EventLoop& loop, Allocations& allocations, LeftoversOptions options)
    : loop_(loop), allocations_(allocations), options_(std::move(options)), gate_(loop) {}

std::vector<Holding> Leftovers::candidates() const {
  std::vector<Holding> holdings;
  for (const Allocations::Ended& ended : allocations_.ended()) {
    holdings.push_back(holding_of(ended.allocation));
  }
  return holdings;
}

struct Leftovers::Search {
  FindDone done;
  http::Timer deadline;
};

void Leftovers::find(FindDone done) {
  auto search = std::make_shared<Search>();
  search->done = std::move(done);
  open_.push_back(search);
  // The driver may hang, and then never calls back.
  search->deadline = loop_.after(options_.driver_deadline, [this, search = std::weak_ptr(search)] {
    finish(search, fail(ErrorCode::kTimeout, "the driver does not report which processes use the GPUs"));
  });
  if (sample_gpus_) {
    sample_gpus_(gate_.wrap<std::vector<gpu::GpuSample>>(
        [this, search = std::weak_ptr(search)](const std::vector<gpu::GpuSample>& samples) {
          finish(search, find_in(samples));
        }));
  }
}

void Leftovers::finish(const std::weak_ptr<Search>& search, const Result<std::vector<Leftover>>& found) {
  if (const auto open = search.lock()) {
    std::erase(open_, open);
    open->done(found);
  }
}

std::vector<Leftover> Leftovers::find_in(const std::vector<gpu::GpuSample>& samples) {
  std::map<std::pair<std::string, std::string>, std::uint32_t> pids;  // by pod UID and GPU
  for (const gpu::GpuSample& sample : samples) {
    for (const gpu::GpuProcess& process :
         sample.processes ? *sample.processes : std::vector<gpu::GpuProcess>()) {
      if (const auto container = container_of_process(options_.proc_root, process.pid)) {
        pids.try_emplace({container->pod_uid, sample.uuid}, process.pid);
      }
    }
  }
  std::vector<Leftover> found;
  const auto now = Clock::real().now();
  std::erase_if(allocations_.ended(), [&](const Allocations::Ended& ended) {
    for (const DeviceShare& share : ended.allocation.shares) {
      const auto pid = pids.find({ended.allocation.pod_uid, share.device});
      if (pid != pids.end()) {
        found.push_back({.holding = holding_of(ended.allocation), .pid = pid->second});
        return false;
      }
    }
    return now - ended.at > kMayLinger;
  });
  return found;
}

}  // namespace tessera::agent
