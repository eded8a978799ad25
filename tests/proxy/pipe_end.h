// One side of a proxied connection: a blocking socket, plain or TLS, that another thread can end.
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

  // To 127.0.0.1 or another address as text.
  static Result<std::unique_ptr<PipeEnd>> connect(const std::string& address, std::uint16_t port);

  // TLS from here on; `name` is what the server's certificate must carry.
  Status start_tls(ssl_ctx_st* context, const std::string& name);
  Status accept_tls(ssl_ctx_st* context);

  // Appends what has come to `out`; false at the end of the stream, in order or not.
  bool read(std::string& out);
  bool write(std::string_view text);

  // Whether read() would find bytes that TLS has already taken from the socket.
  [[nodiscard]] bool has_pending() const;
  [[nodiscard]] int fd() const { return fd_.get(); }

  // Any thread: what waits for this end fails at once. With `reset` the peer gets a reset when this is
  // destroyed.
  void cut(bool reset);

 private:
  Fd fd_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> tls_;
};

}  // namespace tessera::proxy
