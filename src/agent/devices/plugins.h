// agent/devices/plugins.h
//
// The resources of one kind of device as kubelet knows them (of GPUs: gpu-mem, gpu and gpu-count), one device
// plugin each, all answered by one allocator.
//
// Each is registered with its first list that kubelet can take: an empty one would tell it that the devices
// of running pods do not exist. A list that is too long later leaves the devices that are known, with the
// health that they have now; people are told once, and each new list is a new try.
//
// On the event loop's thread, but for leave().
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/allocator.h"
#include "agent/devices/device_plugin.h"

namespace tessera::agent {

class Plugins {
 public:
  // `loop` and `allocator` must live longer. `one`: what people call a device, "GPU".
  Plugins(http::EventLoop& loop, Allocator& allocator, std::string one, DevicePluginOptions options);
  ~Plugins();
  Plugins(const Plugins&) = delete;
  Plugins& operator=(const Plugins&) = delete;

  // Sends kubelet the lists of now, if they changed. The first that it can take registers.
  void publish();

  // Whether the lists have IDs of devices that have gone: they go with who holds them.
  [[nodiscard]] bool lists_vanished() const;

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

  // What people are to be told of it; empty when there is no news.
  std::string offer(Plugin& plugin, const std::vector<Device>& list);

  http::EventLoop& loop_;
  Allocator& allocator_;
  const std::string one_;
  const DevicePluginOptions options_;
  std::optional<std::vector<ResourceList>> published_;
  mutable std::mutex mutex_;  // plugins_: leave() takes them away on another thread
  std::vector<std::unique_ptr<Plugin>> plugins_;
  bool left_ = false;
};

}  // namespace tessera::agent
