// agent/devices/device_plugin.h
//
// Serves one resource to kubelet. Registers again whenever kubelet has dropped the plugin.
//
//   DevicePlugin plugin({.resource = "aliyun.com/gpu-mem", .directory = plugin_dir}, answers);
//   TRY(plugin.set_devices(devices));
//   plugin.status().registered
//
// kubelet drops a plugin in three cases:
//
//   - kubelet restarts: it deletes the plugin's socket. If the plugin has not registered again
//     within about a second, pods that wait for the resource fail for good. So the plugin watches
//     the directory of the sockets (inotify). It also checks its socket every few seconds, in case
//     inotify missed an event.
//   - An instance that registered BEFORE this one ends, for example in a rolling update: kubelet
//     then ends the stream of this instance, but deletes no socket. The plugin sees the end of its
//     stream and registers again.
//   - An instance that registered AFTER this one ends: kubelet then has no plugin for the resource,
//     but leaves the stream of this instance open. So the plugin cannot see this case on its
//     stream. rival_sockets.h detects it, and the plugin registers again with a new server.
//
// Every server uses a new socket name, for two reasons. kubelet 1.37 rejects a socket name that it
// knows already ("already connected"). Two instances with the same socket name would replace each
// other's socket.
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
  // The pause after a failed registration: first_retry, then doubled at each failure up to
  // last_retry.
  Milliseconds first_retry{50};
  Milliseconds last_retry{5'000};
  // How often to check kubelet's socket, the plugin's own socket and those of other plugins.
  Milliseconds check_every{2'000};
  // The deadline of one Register call. kubelet connects to the plugin before it answers, which may
  // take up to 10 s.
  Milliseconds register_within{15'000};
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

  // Replaces the list and sends it to kubelet. If the new list is too long for kubelet, fails with
  // kExhausted and keeps the old list.
  Status set_devices(std::vector<Device> devices);

  // Returns the last list that was accepted.
  [[nodiscard]] std::vector<Device> devices() const;
  [[nodiscard]] DevicePluginStatus status() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::agent
