#include "raw_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace tessera::http {
namespace {

constexpr timeval kTimeout{10, 0};

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

void set_timeouts(int fd) {
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof kTimeout);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof kTimeout);
}

}  // namespace

RawConnection RawConnection::to(std::uint16_t port, const char* source) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  set_timeouts(fd.get());
  const sockaddr_in address = loopback(port);
  sockaddr_in from = loopback(0);
  if (::inet_pton(AF_INET, source, &from.sin_addr) != 1 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) {
    ADD_FAILURE() << "bind to " << source << ": " << std::strerror(errno);
  }
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ADD_FAILURE() << "connect to port " << port << ": " << std::strerror(errno);
  }
  return RawConnection(std::move(fd));
}

bool RawConnection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string RawConnection::read_until(std::string_view end) {
  std::string text;
  char byte = 0;
  while (text.find(end) == std::string::npos) {
    const ssize_t got = ::recv(fd_.get(), &byte, 1, 0);
    if (got < 0 && errno == EAGAIN) {
      ADD_FAILURE() << "timed out waiting for \"" << end << "\" after \"" << text << "\"";
    }
    if (got <= 0) {
      return text;
    }
    text += byte;
  }
  return text;
}

std::string RawConnection::read_exactly(std::size_t size) {
  std::string text(size, '\0');
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t got = ::recv(fd_.get(), text.data() + filled, size - filled, 0);
    if (got < 0 && errno == EAGAIN) {
      ADD_FAILURE() << "timed out waiting for " << size << " bytes; received " << filled;
    }
    if (got <= 0) {
      break;
    }
    filled += static_cast<std::size_t>(got);
  }
  text.resize(filled);
  return text;
}

std::string RawConnection::read_all() {
  std::string text;
  std::array<char, 4096> room{};
  while (true) {
    const ssize_t got = ::recv(fd_.get(), room.data(), room.size(), 0);
    if (got < 0 && errno == EAGAIN) {
      ADD_FAILURE() << "timed out waiting for the end after \"" << text.substr(0, 500) << "\"";
    }
    if (got <= 0) {
      return text;
    }
    text.append(room.data(), static_cast<std::size_t>(got));
  }
}

void RawConnection::relay_to(RawConnection& other) {
  std::array<char, 4096> room{};
  ssize_t got = 0;
  while ((got = ::recv(fd_.get(), room.data(), room.size(), 0)) > 0 &&
         other.send({room.data(), static_cast<std::size_t>(got)})) {
  }
  other.end_sending();
}

bool RawConnection::closed_by_peer() {
  char byte = 0;
  const ssize_t got = ::recv(fd_.get(), &byte, 1, 0);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

void RawConnection::end_sending() {
  ::shutdown(fd_.get(), SHUT_WR);
}

void RawConnection::close(bool abruptly) {
  if (abruptly) {
    const linger now{1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  fd_.reset();
}

RawListener::RawListener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  set_timeouts(fd_.get());
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(fd_.get(), 128) != 0 ||
      ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    ADD_FAILURE() << "listen: " << std::strerror(errno);
  }
  port_ = ntohs(address.sin_port);
}

RawConnection RawListener::accept() {
  Fd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.valid()) {
    ADD_FAILURE() << "no client connected: " << std::strerror(errno);
  }
  set_timeouts(fd.get());
  return RawConnection(std::move(fd));
}

}  // namespace tessera::http
