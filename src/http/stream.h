// http/stream.h
//
// A TCP connection, with or without TLS, for coroutines. Private to the .cc files of this folder.
//
// OpenSSL works directly on the non-blocking socket. Asio's ssl::stream would copy every byte two
// more times and keep 34 KB for each idle connection.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/asio.h"

struct ssl_st;
struct ssl_ctx_st;

namespace tessera::http {

struct Io {
  error_code error;  // asio::error::eof: the peer closed its side cleanly
  std::size_t bytes = 0;
};

class Stream {
 public:
  explicit Stream(Socket socket);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  // Performs the TLS handshake as a client with `peer`, a host name or an IP address. If `verify`
  // is true, the peer's certificate must be trusted and valid for that name. The error says what is
  // wrong with the certificate.
  Task<Status> start_tls(std::shared_ptr<ssl_ctx_st> context, std::string peer, bool verify);
  // Performs the TLS handshake as a server.
  Task<Status> accept_tls(std::shared_ptr<ssl_ctx_st> context);

  // Waits until at least one byte is available, and reads the available bytes into `room`.
  Task<Io> read_some(std::span<char> room);
  // Writes `head`, then `body`. After an error, Io::bytes is the number of bytes (before
  // encryption) that were written before it.
  Task<Io> write(std::string_view head, std::string_view body = {});
  // Signals to the peer that no more data follows. The peer still receives the data that was
  // written.
  Task<void> shut_down();

  // Ends pending reads and writes with operation_aborted. May be called more than once.
  void close();
  // Like close(), but also discards data that the kernel has not delivered yet. No part of an
  // aborted request may reach the peer later.
  void abort();
  [[nodiscard]] bool closed() const { return closed_; }

  // Returns whether bytes, or the end of the stream, can be read. Never blocks.
  [[nodiscard]] bool readable() const;
  // Returns the common name of the peer's verified certificate; "" if there is none.
  [[nodiscard]] std::string peer_name() const;
  [[nodiscard]] Socket& socket() { return socket_; }

 private:
  Task<Io> tls_read(std::span<char> room);
  Task<Io> tls_write(std::string_view text);
  Task<error_code> tls_wait(int ssl_error);
  Task<error_code> tls_handshake(int (*step)(ssl_st*));
  [[nodiscard]] Status handshake_error(const error_code& error, const std::string& peer) const;

  Socket socket_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> tls_;
  bool closed_ = false;
};

}  // namespace tessera::http
