// agent/devices/device_plugin.h
//
// Serves one resource and keeps it registered with kubelet: registers again whenever kubelet has
// forgotten it.
//
//   DevicePlugin plugin({.resource = "aliyun.com/gpu-mem", .directory = plugin_dir}, answers);
//   TRY(plugin.set_devices(devices));
//   plugin.status().registered
//
// When kubelet starts, it deletes the plugin's socket, and pods that wait for the resource fail for
// good unless the plugin is back within about a second. So the directory is watched (inotify), and
// a check every few seconds covers what the watch can miss. kubelet also drops the plugin when
// another instance of it ends (a rolling update), without touching any file: then the stream ends
// while the server lives, and the plugin registers again. When an instance ends that registered
// later, kubelet has no plugin for the resource and does not even end the stream of the older one:
// rival_sockets.h notices, and a new server registers.
//
// Every start uses a new socket name: kubelet 1.37 refuses the same name as "already connected",
// and two instances would take it from each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
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
  Milliseconds check_every{2'000};       // check that kubelet's socket and ours are still the same
  Milliseconds register_within{15'000};  // during Register kubelet dials back, for up to 10 s
};

struct DevicePluginStatus {
  bool registered = false;          // kubelet accepted the plugin and watches its list
  std::uint64_t registrations = 0;  // accepted since the start
  std::string problem;              // why not registered; empty when it is
};

class DevicePlugin {
 public:
  // Starts at once with these devices; the list must fit (check_list_size). `answers` must outlive
  // it.
  DevicePlugin(DevicePluginOptions options, KubeletAnswers& answers, std::vector<Device> devices = {});
  // Waits until the calls in flight are answered; kubelet sees the stream end, and the socket is
  // removed.
  ~DevicePlugin();
  DevicePlugin(const DevicePlugin&) = delete;
  DevicePlugin& operator=(const DevicePlugin&) = delete;

  // Replaces the list; kubelet gets it at once. Fails with kExhausted, and keeps the old list, if
  // the new one is too long for kubelet.
  Status set_devices(std::vector<Device> devices);

  // The last list that fitted.
  [[nodiscard]] std::vector<Device> devices() const;
  [[nodiscard]] DevicePluginStatus status() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::agent
