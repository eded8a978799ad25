// agent/devices/registrar.h
//
// Registers a device plugin with kubelet. The plugin's server must already be listening.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"

namespace tessera::agent {

class Registrar {
 public:
  explicit Registrar(std::string kubelet_socket);
  ~Registrar();
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;

  // Makes one attempt to register the plugin. `endpoint` is the name of its socket in kubelet's
  // plugin directory. Before kubelet answers, it connects to this socket and asks for the plugin's
  // options.
  //
  // A kubelet that is starting may remove the socket after the caller has checked the socket.
  // kubelet would then try to connect for 10 s. So `socket_exists` is polled during the call, and
  // the attempt fails with kUnavailable as soon as `socket_exists` returns false.
  Status register_plugin(const std::string& endpoint, const std::string& resource,
                         std::chrono::milliseconds deadline, const std::function<bool()>& socket_exists);

  // Makes the current attempt and all later ones fail with kCancelled. Call it from any thread.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::agent
