// agent/gpu_plugins.h
//
// The GPU resources of this node as kubelet knows them: gpu-mem, gpu and gpu-count, one device plugin each,
// all answered by one allocator.
//
// Made when there is a first list: an empty one would tell kubelet that the devices of running pods do not
// exist. On the event loop's thread, but for leave().
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/device_plugin.h"
#include "agent/gpu_allocator.h"
#include "agent/gpu_kind.h"

namespace tessera::agent {

class GpuPlugins {
 public:
  // `loop`, `allocator` and `names` must live longer.
  GpuPlugins(http::EventLoop& loop, GpuAllocator& allocator, const alloc::ResourceNames& names,
             DevicePluginOptions options);
  ~GpuPlugins();
  GpuPlugins(const GpuPlugins&) = delete;
  GpuPlugins& operator=(const GpuPlugins&) = delete;

  // Sends kubelet the lists of now, if they changed. The first call registers.
  void publish();

  // Not the loop's thread, while the loop runs: kubelet sees us go, and what it has asked is answered first.
  void leave();

  struct Resource {
    std::string name;
    DevicePluginStatus status;
    std::size_t devices = 0;
    std::size_t healthy = 0;
    std::string problem;  // why kubelet could not be told the list; empty when it was
  };
  [[nodiscard]] std::vector<Resource> resources() const;
  // What is missing until kubelet knows all of them; empty when it does.
  [[nodiscard]] std::string not_ready() const;

 private:
  struct Plugin;

  http::EventLoop& loop_;
  GpuAllocator& allocator_;
  const DevicePluginOptions options_;
  std::vector<std::pair<alloc::GpuResource, std::string>> wanted_;
  std::optional<GpuLists> published_;
  mutable std::mutex mutex_;  // plugins_: leave() takes them away on another thread
  std::vector<std::unique_ptr<Plugin>> plugins_;
  bool left_ = false;
};

}  // namespace tessera::agent
