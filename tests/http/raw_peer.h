// The other end of a connection as a script: bytes in, bytes out, exactly as a test wants them.
//
// Blocking sockets on loopback; every wait ends after ten seconds with a failure, so that a test that hangs
// says where.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace tessera::http {

// One TCP connection, either side of it.
class RawConnection {
 public:
  explicit RawConnection(Fd fd) : fd_(std::move(fd)) {}
  // To a server on 127.0.0.1.
  static RawConnection to(std::uint16_t port);

  // False when the peer is gone.
  bool send(std::string_view bytes);
  // Reads until `end` has been seen; what was read. Less when the peer closed before.
  std::string read_until(std::string_view end);
  // Reads `size` bytes, or fewer when the peer closed before.
  std::string read_exactly(std::size_t size);
  // Reads until the peer closes.
  std::string read_all();
  // Passes on what comes until the peer closes.
  void relay_to(RawConnection& other);
  // Whether the peer has closed, or does so in time.
  bool closed_by_peer();
  // No more from us, but still listening.
  void end_sending();
  // Gone; with `abruptly` the peer gets a reset instead of an end.
  void close(bool abruptly = false);

 private:
  Fd fd_;
};

class RawListener {
 public:
  RawListener();
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  RawConnection accept();
  // Nobody can connect any more.
  void close() { fd_.reset(); }

 private:
  Fd fd_;
  std::uint16_t port_ = 0;
};

}  // namespace tessera::http
