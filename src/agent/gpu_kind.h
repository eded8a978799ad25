// agent/gpu_kind.h
//
// One resource of the GPU allocator, as a DevicePlugin asks it: from any thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "agent/device_kind.h"
#include "agent/gpu_allocator.h"
#include "alloc/names.h"
#include "http/event_loop.h"

namespace tessera::agent {

// A question of kubelet has been answered: "prefer", "allocate" or "pre_start", for which resource, whether
// without an error, and how long kubelet waited. On the event loop's thread.
using OnAnswered = std::function<void(std::string_view question, const std::string& resource, bool ok,
                                      std::chrono::nanoseconds took)>;

class GpuKind final : public DeviceKind {
 public:
  // All must live longer. `answered` may be empty.
  GpuKind(http::EventLoop& loop, GpuAllocator& allocator, alloc::GpuResource resource, std::string name,
          const OnAnswered& answered)
      : loop_(loop),
        allocator_(allocator),
        resource_(resource),
        name_(std::move(name)),
        answered_(answered) {}

  void prefer(Preference preference, std::function<void(std::vector<std::string>)> done) override;
  void allocate(std::vector<std::string> ids, std::function<void(Result<Grant>)> done) override;
  void pre_start(std::vector<std::string> ids, std::function<void(Status)> done) override;

 private:
  // `done`, and then whoever wants to know.
  template <class Answer, class Ok>
  std::function<void(Answer)> timed(std::string_view question, std::function<void(Answer)> done, Ok ok) const;

  http::EventLoop& loop_;
  GpuAllocator& allocator_;
  const alloc::GpuResource resource_;
  const std::string name_;
  const OnAnswered& answered_;
};

}  // namespace tessera::agent
