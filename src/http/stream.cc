#include "http/stream.h"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <climits>

#include "base/strings.h"

namespace tessera::http {
namespace {

// A TLS record holds 16 KiB. Head and body that fit into one are joined, so that a small message is
// sent as one record and one packet.
constexpr std::size_t kRecordBytes = 16U << 10U;

error_code last_errno() {
  return {errno, boost::system::system_category()};
}

// Returns the text of the oldest error in OpenSSL's queue for this thread.
std::string openssl_reason() {
  const unsigned long code = ERR_get_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "" : reason;
}

bool is_address(const std::string& name) {
  error_code error;
  asio::ip::make_address(name, error);
  return !error;
}

}  // namespace

Stream::Stream(Socket socket) : socket_(std::move(socket)), tls_(nullptr, SSL_free) {
  error_code ignored;
  ignored = socket_.set_option(tcp::no_delay(true), ignored);
  ignored = socket_.non_blocking(true, ignored);
}

Stream::~Stream() {
  close();
}

void Stream::close() {
  if (!closed_) {
    closed_ = true;
    close_quietly(socket_);
  }
}

void Stream::abort() {
  if (!closed_) {
    error_code ignored;
    ignored = socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    close();
  }
}

bool Stream::readable() const {
  if (tls_ != nullptr && SSL_has_pending(tls_.get()) == 1) {
    return true;
  }
  char byte = 0;
  const auto fd = const_cast<Socket&>(socket_).native_handle();
  const ssize_t got = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

std::string Stream::peer_name() const {
  X509* certificate = tls_ == nullptr ? nullptr : SSL_get0_peer_certificate(tls_.get());
  if (certificate == nullptr || SSL_get_verify_result(tls_.get()) != X509_V_OK) {
    return {};
  }
  std::array<char, 256> name{};
  const int length = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                               name.data(), static_cast<int>(name.size()));
  return length <= 0 ? std::string() : std::string(name.data(), static_cast<std::size_t>(length));
}

Task<Status> Stream::start_tls(std::shared_ptr<ssl_ctx_st> context, std::string peer, bool verify) {
  tls_.reset(SSL_new(context.get()));
  if (tls_ == nullptr || SSL_set_fd(tls_.get(), socket_.native_handle()) != 1) {
    co_return fail(ErrorCode::kInternal, "OpenSSL cannot create a connection: " + openssl_reason());
  }
  // A certificate lists host names and addresses separately, and SNI allows only host names (RFC
  // 6066).
  bool named = false;
  if (is_address(peer)) {
    named = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_.get()), peer.c_str()) == 1;
  } else {
    named = SSL_set1_host(tls_.get(), peer.c_str()) == 1;
    SSL_set_hostflags(tls_.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    SSL_set_tlsext_host_name(tls_.get(), peer.c_str());
  }
  if (verify && !named) {
    // Without a name to compare, any certificate of the authority would be accepted.
    co_return fail(ErrorCode::kInvalid,
                   fmt::format("a certificate cannot be verified for the name {}; set a host name or an "
                               "IP address",
                               in_quotes(peer)));
  }
  SSL_set_verify(tls_.get(), verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  const error_code error = co_await tls_handshake(SSL_connect);
  co_return handshake_error(error, peer);
}

Task<Status> Stream::accept_tls(std::shared_ptr<ssl_ctx_st> context) {
  tls_.reset(SSL_new(context.get()));
  if (tls_ == nullptr || SSL_set_fd(tls_.get(), socket_.native_handle()) != 1) {
    co_return fail(ErrorCode::kInternal, "OpenSSL cannot create a connection: " + openssl_reason());
  }
  const error_code error = co_await tls_handshake(SSL_accept);
  co_return handshake_error(error, "the client");
}

Status Stream::handshake_error(const error_code& error, const std::string& peer) const {
  if (!error) {
    return {};
  }
  if (const long verdict = SSL_get_verify_result(tls_.get()); verdict != X509_V_OK) {
    return fail(ErrorCode::kDenied, fmt::format("the certificate of {} was rejected: {}", peer,
                                                X509_verify_cert_error_string(verdict)));
  }
  if (const std::string reason = openssl_reason(); !reason.empty()) {
    return fail(ErrorCode::kUnavailable, fmt::format("TLS with {} failed: {}", peer, reason));
  }
  return fail(ErrorCode::kUnavailable, fmt::format("TLS with {} failed: {}", peer, error.message()));
}

Task<error_code> Stream::tls_handshake(int (*step)(ssl_st*)) {
  while (true) {
    ERR_clear_error();
    const int done = step(tls_.get());
    if (done == 1) {
      co_return error_code{};
    }
    const error_code error = co_await tls_wait(SSL_get_error(tls_.get(), done));
    if (error) {
      co_return error;
    }
  }
}

// Waits until the socket is readable or writable if `ssl_error` asks for that. Otherwise returns
// the error that ended the TLS connection.
Task<error_code> Stream::tls_wait(int ssl_error) {
  if (ssl_error == SSL_ERROR_WANT_READ || ssl_error == SSL_ERROR_WANT_WRITE) {
    const auto what = ssl_error == SSL_ERROR_WANT_READ ? Socket::wait_read : Socket::wait_write;
    const auto [error] = co_await socket_.async_wait(what, kAwait);
    co_return closed_ ? error_code(asio::error::operation_aborted) : error;
  }
  if (ssl_error == SSL_ERROR_ZERO_RETURN) {
    co_return error_code(asio::error::eof);
  }
  if (ssl_error == SSL_ERROR_SYSCALL && errno != 0) {
    co_return last_errno();
  }
  // A stream that ends without close_notify may have been cut by an attacker.
  co_return error_code(asio::error::connection_reset);
}

Task<Io> Stream::tls_read(std::span<char> room) {
  while (!closed_) {
    ERR_clear_error();
    errno = 0;
    std::size_t bytes = 0;
    const int done = SSL_read_ex(tls_.get(), room.data(), room.size(), &bytes);
    if (done == 1) {
      co_return Io{{}, bytes};
    }
    if (const error_code error = co_await tls_wait(SSL_get_error(tls_.get(), done))) {
      co_return Io{error, 0};
    }
  }
  co_return Io{asio::error::operation_aborted, 0};
}

Task<Io> Stream::tls_write(std::string_view text) {
  std::size_t written = 0;
  while (written < text.size()) {
    if (closed_) {
      co_return Io{asio::error::operation_aborted, written};
    }
    ERR_clear_error();
    errno = 0;
    std::size_t bytes = 0;
    const int done = SSL_write_ex(tls_.get(), text.data() + written, text.size() - written, &bytes);
    if (done == 1) {
      written += bytes;
      continue;
    }
    if (const error_code error = co_await tls_wait(SSL_get_error(tls_.get(), done))) {
      co_return Io{error, written};
    }
  }
  co_return Io{{}, written};
}

Task<Io> Stream::read_some(std::span<char> room) {
  if (closed_) {
    co_return Io{asio::error::operation_aborted, 0};
  }
  if (tls_ != nullptr) {
    co_return co_await tls_read(room);
  }
  const auto [error, bytes] =
      co_await socket_.async_read_some(asio::mutable_buffer(room.data(), room.size()), kAwait);
  co_return Io{error, bytes};
}

Task<Io> Stream::write(std::string_view head, std::string_view body) {
  if (closed_) {
    co_return Io{asio::error::operation_aborted, 0};
  }
  if (tls_ == nullptr) {
    std::array<asio::const_buffer, 2> parts{asio::const_buffer(head.data(), head.size()),
                                            asio::const_buffer(body.data(), body.size())};
    // The kernel nearly always accepts everything at once, without a wait.
    error_code error;
    const std::size_t now = socket_.write_some(parts, error);
    if (now == head.size() + body.size() || (error && error != asio::error::would_block)) {
      co_return Io{error, now};
    }
    const std::size_t of_head = std::min(now, head.size());
    parts[0] += of_head;
    parts[1] += now - of_head;
    const auto [late_error, later] = co_await asio::async_write(socket_, parts, kAwait);
    co_return Io{late_error, now + later};
  }
  if (head.size() + body.size() <= kRecordBytes) {
    const std::string joined = std::string(head).append(body);
    co_return co_await tls_write(joined);
  }
  const Io first = co_await tls_write(head);
  if (first.error) {
    co_return first;
  }
  const Io second = co_await tls_write(body);
  co_return Io{second.error, first.bytes + second.bytes};
}

Task<void> Stream::shut_down() {
  if (closed_) {
    co_return;
  }
  if (tls_ != nullptr && SSL_is_init_finished(tls_.get()) == 1) {
    ERR_clear_error();
    SSL_shutdown(tls_.get());  // sends close_notify; the peer need not respond
  }
  end_sending_quietly(socket_);
}

}  // namespace tessera::http
