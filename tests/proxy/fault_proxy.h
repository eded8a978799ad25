// A proxy between a client and a real server that injects faults of networks and servers.
//
//   FaultProxy proxy = FaultProxy::start({.upstream = "https://127.0.0.1:6443",
//                                         .upstream_ca = ca,
//                                         .tls = ours}).value();
//   proxy.inject({.kind = FaultKind::kAnswer, .target_has = "/binding", .status = 409});
//   ... point the client at proxy.url() ...
//
// It uses HTTP/1.1 and terminates TLS on both sides, so that it can respond in place of the server
// and cut a stream inside a chunk. Requests without a fault pass unchanged. Each connection has its
// own thread, which is enough for tests. All functions may be called on any thread.
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
  std::string upstream_ca = {};  // PEM of the upstream's authority, for https
  // The certificate for clients. Without one, clients use plain HTTP.
  http::TlsIdentity tls = {};
  std::uint16_t port = 0;
};

// A request as the proxy saw it.
struct SeenRequest {
  std::string method;
  std::string target;
  int status = 0;       // status of the response to the client; 0 if it got none
  bool faulty = false;  // a fault was injected
};

class FaultProxy {
 public:
  static Result<FaultProxy> start(ProxyOptions options);
  FaultProxy(FaultProxy&&) noexcept;
  FaultProxy& operator=(FaultProxy&&) = delete;
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;
  // Closes all connections.
  ~FaultProxy();

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string url() const;

  // Adds a fault for future requests. A request gets the first fault that matches it.
  void inject(Fault fault);
  // Removes all faults. Stalled streams continue.
  void clear();

  // Closes every open connection.
  void cut_all(bool reset = false);
  // While on, no data passes in either direction, but connections stay open and new ones are
  // accepted, like a pulled cable.
  void freeze(bool on);
  // While on, new connections are closed at once, as if the server were down.
  void refuse(bool on);

  [[nodiscard]] std::vector<SeenRequest> seen() const;
  [[nodiscard]] std::size_t open_connections() const;
  // Number of requests with an injected fault.
  [[nodiscard]] std::size_t hits() const;

  struct Impl;

 private:
  explicit FaultProxy(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace tessera::proxy
