// http/stream.h
//
// A TCP connection, with or without TLS, as coroutines read and write it. For the .cc files of this folder.
//
// TLS runs OpenSSL on the non-blocking socket itself. Asio's ssl::stream would copy every byte twice more and
// keep 34 KB for each idle connection.
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
  error_code error;  // asio::error::eof: the peer ended its side in good order
  std::size_t bytes = 0;
};

class Stream {
 public:
  explicit Stream(Socket socket);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  // As a client that wants to speak with `peer` (a host name, or an address as text); with `verify` its
  // certificate has to be trusted and made out for that name. The error says what is wrong with it.
  Task<Status> start_tls(std::shared_ptr<ssl_ctx_st> context, std::string peer, bool verify);
  // As a server.
  Task<Status> accept_tls(std::shared_ptr<ssl_ctx_st> context);

  // Reads what is there, at least one byte.
  Task<Io> read_some(std::span<char> room);
  // Writes everything, `head` first. `bytes` is what the kernel took (of the plain text) before an error.
  Task<Io> write(std::string_view head, std::string_view body = {});
  // Tells the peer that no more will come and lets it read what is under way.
  Task<void> shut_down();

  // Ends pending reads and writes with operation_aborted. Can be called again.
  void close();
  // The same, and what the kernel has not delivered yet is thrown away: nothing of a request that was given
  // up may reach the peer later.
  void abort();
  [[nodiscard]] bool closed() const { return closed_; }

  // Whether bytes, or the end of the stream, wait to be read. Never blocks.
  [[nodiscard]] bool readable() const;
  // Common name of the certificate that the peer showed and that was verified; "" if none.
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
