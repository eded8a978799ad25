// One side of a proxied connection: a blocking socket, plain or TLS, that another thread can close.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

struct ssl_st;
struct ssl_ctx_st;

namespace tessera::proxy {

class PipeEnd {
 public:
  explicit PipeEnd(Fd fd);
  ~PipeEnd();
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;

  // Connects to an IPv4 address.
  static Result<std::unique_ptr<PipeEnd>> connect(const std::string& address, std::uint16_t port);

  // Performs the TLS handshake. The server's certificate must be valid for `name`.
  Status start_tls(ssl_ctx_st* context, const std::string& name);
  Status accept_tls(ssl_ctx_st* context);

  // Appends the received bytes to `out`. Returns false at the end of the stream or on an error.
  bool read(std::string& out);
  bool write(std::string_view text);

  // Returns whether TLS has buffered bytes that read() would return.
  [[nodiscard]] bool has_pending() const;
  [[nodiscard]] int fd() const { return fd_.get(); }

  // Makes pending and later reads and writes fail. With `reset`, the destructor resets the
  // connection. Any thread.
  void cut(bool reset);

 private:
  Fd fd_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> tls_;
};

}  // namespace tessera::proxy
