// A proxy between a client and a real server that does on command what networks and servers do by accident.
//
//   FaultProxy proxy = FaultProxy::start({.upstream = "https://127.0.0.1:6443", .upstream_ca = ca, .tls =
//   ours}).value(); proxy.inject({.kind = FaultKind::kAnswer, .target_has = "/binding", .status = 409});
//   ... point the client at proxy.url() ...
//
// It speaks HTTP/1.1 on both sides and ends TLS on both, so that it can answer in the server's place and cut
// a stream inside a chunk. Requests that no fault hits pass unchanged. A thread for each connection: it is
// made for tests, which have a few of them. Any thread may call anything.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "fault.h"
#include "http/tls.h"

namespace tessera::proxy {

struct ProxyOptions {
  std::string upstream;          // "https://127.0.0.1:6443"
  std::string upstream_ca = {};  // PEM of its authority, for https
  // What we show to clients; without a certificate they speak plain HTTP with us.
  http::TlsIdentity tls = {};
  std::uint16_t port = 0;
};

// A request as the proxy saw it.
struct SeenRequest {
  std::string method;
  std::string target;
  int status = 0;       // of the answer that went to the client; 0 if none did
  bool faulty = false;  // a fault hit it
};

class FaultProxy {
 public:
  static Result<FaultProxy> start(ProxyOptions options);
  FaultProxy(FaultProxy&&) noexcept;
  FaultProxy& operator=(FaultProxy&&) = delete;
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;
  // Cuts everything.
  ~FaultProxy();

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string url() const;

  // For requests that come from now on. The first fault that fits a request is the one it gets.
  void inject(Fault fault);
  // No more faults; what stalls goes on.
  void clear();

  // Every open connection ends now.
  void cut_all(bool reset = false);
  // Nothing passes in either direction while it is on; connections stay open, new ones too: a cable that was
  // pulled.
  void freeze(bool on);
  // New connections are closed at once while it is on: a server that is down.
  void refuse(bool on);

  [[nodiscard]] std::vector<SeenRequest> seen() const;
  [[nodiscard]] std::size_t open_connections() const;
  // How many requests were hit by a fault.
  [[nodiscard]] std::size_t hits() const;

  struct Core;

 private:
  explicit FaultProxy(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace tessera::proxy
