// agent/devices/device_plugin.h
//
// One resource, kept known to kubelet: serves it, registers it, and does so again whenever kubelet has
// forgotten us.
//
//   DevicePlugin plugin({.resource = "aliyun.com/gpu-mem", .directory = plugin_dir}, answers);
//   TRY(plugin.set_devices(devices));
//   plugin.status().registered
//
// When kubelet starts it deletes our socket, and pods that wait for it fail for good unless we are back
// within about a second: its directory is watched (inotify), and a look every few seconds covers what a watch
// can miss. kubelet also drops us when another instance of ours ends (a rolling update), without touching any
// file: then its stream ends while our server lives, and we register again. And when an instance ends that
// registered after us, kubelet has nobody and does not even end our stream: rival_sockets.h notices, and a
// new server registers.
//
// Every start uses a new socket name: the same name would be refused as "already connected" (1.37), and two
// instances would take it from each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/devices/kubelet_answers.h"
#include "base/result.h"

namespace tessera::agent {

struct DevicePluginOptions {
  using Milliseconds = std::chrono::milliseconds;

  std::string resource{};  // "aliyun.com/gpu-mem"
  std::string directory = "/var/lib/kubelet/device-plugins";
  Milliseconds first_retry{50};  // doubled at each failure
  Milliseconds last_retry{5'000};
  Milliseconds look_every{2'000};        // whether kubelet and our socket are still what they were
  Milliseconds register_within{15'000};  // kubelet dials us back within, for up to 10 s
  // After each answer to kubelet (measured_answers.h); any thread.
  std::function<void(std::string_view call, const std::string& resource, bool well,
                     std::chrono::nanoseconds took)>
      on_call{};
  // A list was too long for kubelet: what is offered instead and what to do (plugins.h). Once for each such
  // list, on the event loop's thread.
  std::function<void(const std::string& what)> on_too_long{};
};

struct DevicePluginStatus {
  bool registered = false;          // kubelet accepted us and watches our list
  std::uint64_t registrations = 0;  // accepted since the start
  std::string problem;              // why not registered; empty when it is
};

class DevicePlugin {
 public:
  // Starts at once, with these devices: kubelet could take a list so long (check_list_size). `answers` must
  // outlive it.
  DevicePlugin(DevicePluginOptions options, KubeletAnswers& answers, std::vector<Device> devices = {});
  // Leaves: kubelet sees the stream end, the socket is gone.
  ~DevicePlugin();
  DevicePlugin(const DevicePlugin&) = delete;
  DevicePlugin& operator=(const DevicePlugin&) = delete;

  // The whole list; kubelet gets it at once. Fails with kExhausted, and keeps the old list, when kubelet
  // could not take one so long.
  Status set_devices(std::vector<Device> devices);

  // The last list that was taken.
  [[nodiscard]] std::vector<Device> devices() const;
  [[nodiscard]] DevicePluginStatus status() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tessera::agent
