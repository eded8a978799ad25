// agent/devices/device_plugin.h
//
// Serves one resource to kubelet and registers it again whenever kubelet has dropped it.
//
//   DevicePlugin plugin({.resource = "aliyun.com/gpu-mem", .directory = plugin_dir}, answers);
//   TRY(plugin.set_devices(devices));
//   plugin.status().registered
//
// kubelet drops a plugin in three ways:
//
//   - When kubelet starts, it deletes the plugin's socket. If the plugin is not back within about a
//     second, pods that wait for the resource fail for good. So the plugin watches the directory
//     (inotify). It also checks its socket every few seconds, in case inotify missed an event.
//   - When another instance of the plugin ends (a rolling update), kubelet ends the stream but
//     deletes no socket. The plugin registers again.
//   - When an instance ends that registered later, kubelet has no plugin for the resource. It
//     leaves the stream of the older instance open, so that instance sees no sign on the stream.
//     rival_sockets.h detects this case, and the plugin registers with a new server.
//
// Every server uses a new socket name, for two reasons. kubelet 1.37 rejects a known name as
// "already connected". And two instances with the same name would replace each other's socket.
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
  Milliseconds check_every{2'000};       // how often to check the two sockets
  Milliseconds register_within{15'000};  // kubelet dials back during Register, for up to 10 s
};

struct DevicePluginStatus {
  bool registered = false;          // kubelet accepted the plugin and watches its list
  bool alone = true;                // no other instance of the agent serves the resource
  std::uint64_t registrations = 0;  // accepted since the start
  std::string problem;              // why it is not registered; empty if it is
};

class DevicePlugin {
 public:
  // Starts to serve `devices` and to register. The list must not be too long (check_list_size).
  // `answers` must outlive the plugin.
  DevicePlugin(DevicePluginOptions options, KubeletAnswers& answers, std::vector<Device> devices = {});
  // Waits until the calls in flight are answered, ends the stream to kubelet and removes the
  // socket.
  ~DevicePlugin();
  DevicePlugin(const DevicePlugin&) = delete;
  DevicePlugin& operator=(const DevicePlugin&) = delete;

  // Replaces the list and sends it to kubelet. Fails with kExhausted, and keeps the old list, if
  // the new one is too long for kubelet.
  Status set_devices(std::vector<Device> devices);

  // Returns the last list that was accepted.
  [[nodiscard]] std::vector<Device> devices() const;
  [[nodiscard]] DevicePluginStatus status() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::agent
