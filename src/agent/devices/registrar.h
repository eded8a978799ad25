// agent/devices/registrar.h
//
// Registers a device plugin, which must already be served, with kubelet.
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

  // Makes one attempt. kubelet dials `endpoint` (the name of a socket in its own directory) and
  // asks for its options before it answers, so the server must be up. A kubelet that just starts
  // may remove the socket after the caller has checked it, and would then dial for 10 s. So
  // `socket_exists` is called in the meantime; if it returns false, the attempt fails with
  // kUnavailable.
  Status register_plugin(const std::string& endpoint, const std::string& resource,
                         std::chrono::milliseconds deadline, const std::function<bool()>& socket_exists);

  // Any thread. The current attempt and every later one fail with kCancelled.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::agent
