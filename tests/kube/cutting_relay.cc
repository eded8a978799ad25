#include "cutting_relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <vector>

namespace tessera::kube {

namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

Fd new_socket() {
  return Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

}  // namespace

CuttingRelay::CuttingRelay(std::uint16_t server_port) : server_port_(server_port), listener_(new_socket()) {
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_.get(), raw, size) != 0 || ::listen(listener_.get(), 64) != 0 ||
      ::getsockname(listener_.get(), raw, &size) != 0) {
    throw std::runtime_error("CuttingRelay: cannot listen");
  }
  port_ = ntohs(address.sin_port);
  auto pipe = Pipe::create();
  stop_read_ = std::move(pipe->read_end);
  stop_write_ = std::move(pipe->write_end);
  thread_ = std::thread([this] { run(); });
}

CuttingRelay::~CuttingRelay() {
  stop_write_.reset();
  thread_.join();
}

void CuttingRelay::run() {
  while (true) {
    std::vector<pollfd> waiting{{stop_read_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      // Ignore both sides of a hanging connection.
      waiting.push_back({pair.hangs ? -1 : pair.client.get(), POLLIN, 0});
      waiting.push_back({pair.hangs ? -1 : pair.server.get(), POLLIN, 0});
    }
    ::poll(waiting.data(), waiting.size(), -1);
    if (waiting[0].revents != 0) {
      return;
    }
    std::size_t at = 2;
    for (auto pair = pairs_.begin(); pair != pairs_.end(); at += 2) {
      const bool alive = (waiting[at].revents == 0 || pass(*pair, pair->client, pair->server)) &&
                         (waiting[at + 1].revents == 0 || pass(*pair, pair->server, pair->client));
      pair = alive ? std::next(pair) : pairs_.erase(pair);
    }
    if (waiting[1].revents != 0) {
      accept_one();
    }
  }
}

void CuttingRelay::accept_one() {
  Pair pair{.client = Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)), .server = new_socket()};
  const sockaddr_in address = loopback(server_port_);
  if (pair.client.valid() &&
      ::connect(pair.server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    pairs_.push_back(std::move(pair));
  }
}

void CuttingRelay::plan(Pair& pair) {
  const std::uint64_t average = average_bytes_;
  if (average == 0) {
    pair.left = 0;
  } else if (pair.left == 0) {
    pair.left = 1 + random_() % (2 * average);
  }
}

bool CuttingRelay::pass(Pair& pair, const Fd& from, const Fd& to) {
  plan(pair);
  std::array<char, 65536> bytes{};
  const ssize_t got = ::read(from.get(), bytes.data(), bytes.size());
  if (got <= 0) {
    return false;
  }
  auto size = static_cast<std::size_t>(got);
  const bool ends = pair.left != 0 && size >= pair.left;
  size = ends ? pair.left : size;
  for (std::size_t sent = 0; sent < size;) {
    const ssize_t put = ::send(to.get(), bytes.data() + sent, size - sent, MSG_NOSIGNAL);
    if (put <= 0) {
      return false;
    }
    sent += static_cast<std::size_t>(put);
  }
  if (!ends) {
    pair.left -= pair.left == 0 ? 0 : size;
    return true;
  }
  pair.hangs = random_() % 4 == 0;
  ++(pair.hangs ? hung_ : broken_);
  return pair.hangs;
}

}  // namespace tessera::kube
