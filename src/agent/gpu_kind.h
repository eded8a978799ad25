// agent/gpu_kind.h
//
// One resource of the GPU allocator, as a DevicePlugin asks it: from any thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/device_kind.h"
#include "agent/gpu_allocator.h"
#include "alloc/names.h"
#include "http/event_loop.h"

namespace tessera::agent {

class GpuKind final : public DeviceKind {
 public:
  // Both must live longer.
  GpuKind(http::EventLoop& loop, GpuAllocator& allocator, alloc::GpuResource resource)
      : loop_(loop), allocator_(allocator), resource_(resource) {}

  void prefer(Preference preference, std::function<void(std::vector<std::string>)> done) override;
  void allocate(std::vector<std::string> ids, std::function<void(Result<Grant>)> done) override;
  void pre_start(std::vector<std::string> ids, std::function<void(Status)> done) override;

 private:
  http::EventLoop& loop_;
  GpuAllocator& allocator_;
  const alloc::GpuResource resource_;
};

}  // namespace tessera::agent
