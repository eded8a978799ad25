// agent/registrar.h
//
// Tells kubelet about a device plugin that is already being served.
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

  // One attempt. kubelet dials `endpoint` (the name of a socket beside its own) and asks for its options
  // before it answers, so the server must be up.
  Status register_plugin(const std::string& endpoint, const std::string& resource,
                         std::chrono::milliseconds deadline);

  // Any thread: the attempt that is under way, and every later one, fails with kCancelled.
  void stop();

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tessera::agent
