#include "pipe_end.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace tessera::proxy {
namespace {

tl::unexpected<Error> tls_failed(const char* what) {
  const unsigned long code = ERR_get_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return fail(ErrorCode::kUnavailable,
              std::string(what) + ": " + (reason == nullptr ? "connection closed" : reason));
}

}  // namespace

PipeEnd::PipeEnd(Fd fd) : fd_(std::move(fd)), tls_(nullptr, SSL_free) {
  const int on = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

PipeEnd::~PipeEnd() = default;

Result<std::unique_ptr<PipeEnd>> PipeEnd::connect(const std::string& address, std::uint16_t port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &where.sin_addr) != 1) {
    return fail(ErrorCode::kInvalid, "the upstream host \"" + address + "\" is not an IPv4 address");
  }
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) {
    return fail(Error::from_errno("connect to " + address + ":" + std::to_string(port), errno));
  }
  return std::make_unique<PipeEnd>(std::move(fd));
}

Status PipeEnd::start_tls(ssl_ctx_st* context, const std::string& name) {
  tls_.reset(SSL_new(context));
  SSL_set_fd(tls_.get(), fd_.get());
  SSL_set_verify(tls_.get(), SSL_VERIFY_PEER, nullptr);
  X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_.get()), name.c_str());
  ERR_clear_error();
  return SSL_connect(tls_.get()) == 1 ? Status{} : tls_failed("TLS with the server");
}

Status PipeEnd::accept_tls(ssl_ctx_st* context) {
  tls_.reset(SSL_new(context));
  SSL_set_fd(tls_.get(), fd_.get());
  ERR_clear_error();
  return SSL_accept(tls_.get()) == 1 ? Status{} : tls_failed("TLS with the client");
}

bool PipeEnd::read(std::string& out) {
  std::array<char, 64U << 10U> room;
  std::size_t bytes = 0;
  if (tls_ != nullptr) {
    ERR_clear_error();
    if (SSL_read_ex(tls_.get(), room.data(), room.size(), &bytes) != 1) {
      return false;
    }
  } else {
    const ssize_t got = ::recv(fd_.get(), room.data(), room.size(), 0);
    if (got <= 0) {
      return false;
    }
    bytes = static_cast<std::size_t>(got);
  }
  out.append(room.data(), bytes);
  return true;
}

bool PipeEnd::write(std::string_view text) {
  while (!text.empty()) {
    std::size_t bytes = 0;
    if (tls_ != nullptr) {
      ERR_clear_error();
      if (SSL_write_ex(tls_.get(), text.data(), text.size(), &bytes) != 1) {
        return false;
      }
    } else {
      const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        return false;
      }
      bytes = static_cast<std::size_t>(sent);
    }
    text.remove_prefix(bytes);
  }
  return true;
}

bool PipeEnd::has_pending() const {
  return tls_ != nullptr && SSL_has_pending(tls_.get()) == 1;
}

void PipeEnd::cut(bool reset) {
  if (reset) {
    const linger now{1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  // A clean shutdown of the sending direction would precede the reset.
  ::shutdown(fd_.get(), reset ? SHUT_RD : SHUT_RDWR);
}

}  // namespace tessera::proxy
