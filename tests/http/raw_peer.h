// A scripted peer: a test sends and reads exactly the bytes it wants.
//
// Uses blocking sockets on loopback. Every wait fails after ten seconds, so that a test that hangs
// reports where.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace tessera::http {

// Either side of a TCP connection.
class RawConnection {
 public:
  explicit RawConnection(Fd fd) : fd_(std::move(fd)) {}
  // Connects to a server on 127.0.0.1. `source` is an address of the loopback interface.
  static RawConnection to(std::uint16_t port, const char* source = "127.0.0.1");

  // Returns false if the peer closed the connection.
  bool send(std::string_view bytes);
  // Reads up to and including `end`, or up to where the peer closed the connection.
  std::string read_until(std::string_view end);
  // Reads `size` bytes, or fewer if the peer closed the connection.
  std::string read_exactly(std::size_t size);
  // Reads until the peer closes the connection.
  std::string read_all();
  // Forwards everything to `other` until the peer closes the connection.
  void relay_to(RawConnection& other);
  // Waits for the peer to close the connection. Returns false on a timeout.
  bool closed_by_peer();
  // Closes the sending direction only.
  void end_sending();
  // Closes the connection; with `abruptly` the peer gets a reset.
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
  // Stops listening.
  void close() { fd_.reset(); }

 private:
  Fd fd_;
  std::uint16_t port_ = 0;
};

}  // namespace tessera::http
