// agent/devices/registrar.h
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
  // before it answers, so the server must be up. A kubelet that just starts may remove the socket after we
  // looked and would then dial for 10 s: `still_there` is asked meanwhile, and the attempt given up with
  // kUnavailable when it says no.
  Status register_plugin(const std::string& endpoint, const std::string& resource,
                         std::chrono::milliseconds deadline, const std::function<bool()>& still_there);

  // Any thread: the attempt that is under way, and every later one, fails with kCancelled.
  void stop();

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tessera::agent
