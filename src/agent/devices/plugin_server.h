// agent/devices/plugin_server.h
//
// kubelet's device-plugin API for one resource, served on one Unix socket.
//
//   auto server = TRY(PluginServer::start(path, answers, {.stream_ended = ...}));
//   TRY(server->set_devices(devices));      // to every kubelet that watches, now and later
//
// Any thread. `answers` must outlive the server, and so must every question it has not answered
// yet: the destructor ends the streams and waits for the answers.
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
  // What kubelet's client takes in one message, less some room.
  static constexpr std::size_t kMaxListBytes = (4U << 20U) - (16U << 10U);

  struct Events {
    std::function<void()> stream_opened{};  // kubelet watches
    std::function<void()> stream_ended{};   // kubelet has gone, or has dropped us
  };

  // Listens on `socket_path`, replacing what lies there.
  static Result<std::unique_ptr<PluginServer>> start(const std::string& socket_path, KubeletAnswers& answers,
                                                     const std::vector<Device>& devices, Events events);
  virtual ~PluginServer() = default;

  // Replaces the list. Fails with kExhausted, and keeps the old one, when kubelet could not take
  // it.
  virtual Status set_devices(std::vector<Device> devices) = 0;
};

// Returns the size of the list on the wire with all devices unhealthy, which is the longer word: a
// list that fits now still fits when devices become unhealthy. Fails if the list is too long for
// kubelet, and says what to do.
Result<std::size_t> check_list_size(const std::vector<Device>& devices);

}  // namespace tessera::agent
