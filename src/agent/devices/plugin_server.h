// agent/devices/plugin_server.h
//
// Serves kubelet's device-plugin API for one resource on one Unix socket.
//
//   auto server = TRY(PluginServer::start(path, answers, devices, {.stream_ended = ...}));
//   TRY(server->set_devices(changed));      // sent on all streams, current and future
//
// All calls may be made from any thread. `answers` must outlive the server. The destructor waits
// for the answers to pending calls and ends the streams.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/devices/kubelet_answers.h"
#include "base/result.h"

namespace tessera::agent {

class PluginServer {
 public:
  // kubelet's limit for one message (4 MiB), less a reserve.
  static constexpr std::size_t kMaxListBytes = (4U << 20U) - (16U << 10U);

  struct Events {
    std::function<void()> stream_opened{};  // kubelet has opened ListAndWatch
    std::function<void()> stream_ended{};   // kubelet has ended, or has dropped the plugin
  };

  // Listens on `socket_path`; replaces an existing file. Fails with kExhausted if the device list
  // is too long for kubelet, kInvalid if the path is too long, kUnavailable if it cannot listen.
  static Result<std::unique_ptr<PluginServer>> start(const std::string& socket_path, KubeletAnswers& answers,
                                                     const std::vector<Device>& devices, Events events);
  virtual ~PluginServer() = default;

  // Replaces the device list. If the new list is too long for kubelet, fails with kExhausted and
  // keeps the old list.
  virtual Status set_devices(std::vector<Device> devices) = 0;
};

// Returns the size of the list on the wire, in bytes, as if all devices were unhealthy. "Unhealthy"
// is longer than "Healthy", so an accepted list stays short enough when devices become unhealthy.
// Fails with kExhausted if the list is too long for kubelet; the error says what to do.
Result<std::size_t> check_list_size(const std::vector<Device>& devices);

}  // namespace tessera::agent
