// Connecting a client: name look-up, TCP, proxy, TLS.
#include <fmt/core.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <sys/socket.h>

#include <boost/asio/ip/basic_resolver.hpp>

#include "http/client_impl.h"

namespace tessera::http {
namespace {

using Resolver = asio::ip::basic_resolver<tcp, Executor>;

Error unreachable(const Url& where, const std::string& reason) {
  return {ErrorCode::kUnavailable, fmt::format("cannot connect to {}: {}", where.authority(), reason)};
}

// With the kernel's defaults, a peer that disappears silently (a pulled cable, a lost NAT entry) is
// detected only after two hours, or after fifteen minutes with unacknowledged data.
void enable_dead_peer_detection(Socket& socket) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket.native_handle(), level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);  // seconds, like the next one
  set(IPPROTO_TCP, TCP_KEEPINTVL, 3);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::chrono::milliseconds(kDeadAfter).count()));
}

// A host name look-up. It runs in the C library on a thread of Asio and cannot be cancelled, so a
// request that times out leaves it running.
struct Lookup {
  explicit Lookup(const Executor& executor) : resolver(executor), over(executor, SteadyTime::max()) {}

  Resolver resolver;
  SteadyTimer over;  // cancelled when there is a result, or the request no longer waits for it
  error_code error;
  Resolver::results_type found;
};

// Returns the addresses of `where`. An IP address needs no look-up, and thus no resolver thread.
Task<Result<std::vector<tcp::endpoint>>> resolve(Call::Impl& call, EventLoop::Impl& loop, const Url& where) {
  error_code literal_error;
  const asio::ip::address address = asio::ip::make_address(where.host, literal_error);
  if (!literal_error) {
    co_return std::vector<tcp::endpoint>{{address, where.port}};
  }
  const auto lookup = std::make_shared<Lookup>(loop.io.get_executor());
  ++loop.lookups;
  lookup->resolver.async_resolve(
      where.host, std::to_string(where.port),
      [lookup, &loop](const error_code& error, const Resolver::results_type& found) {
        --loop.lookups;
        lookup->error = error;
        lookup->found = found;
        lookup->over.cancel();
      });
  call.abort = [&lookup] { lookup->over.cancel(); };
  co_await lookup->over.async_wait(kAwait);
  call.abort = nullptr;
  if (call.interrupted) {
    lookup->resolver.cancel();  // effective only if it has not started yet
    co_return fail(*call.interrupted);
  }
  if (lookup->error) {
    co_return fail(unreachable(where, lookup->error.message()));
  }
  std::vector<tcp::endpoint> endpoints;
  for (const auto& entry : lookup->found) {
    endpoints.push_back(entry.endpoint());
  }
  co_return endpoints;
}

}  // namespace

std::string proxy_authorization(const Url& proxy) {
  if (proxy.user.empty()) {
    return {};
  }
  std::string encoded((proxy.user.size() + 2) / 3 * 4 + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                     reinterpret_cast<const unsigned char*>(proxy.user.data()),
                                     static_cast<int>(proxy.user.size()));
  encoded.resize(static_cast<std::size_t>(length));
  return "Proxy-Authorization: Basic " + encoded + "\r\n";
}

// Tries the addresses in turn. Each gets an equal part of the timeout, so that one that drops
// packets (such as a broken IPv6 route) does not use up the time of the others.
Task<Result<Socket>> Client::Impl::connect_tcp(Call::Impl& call, const Url& where) {
  const Result<std::vector<tcp::endpoint>> endpoints = co_await resolve(call, loop.impl(), where);
  if (!endpoints) {
    co_return fail(endpoints.error());
  }
  std::string reason = "no address";
  for (std::size_t i = 0; i < endpoints->size(); ++i) {
    Socket socket(executor());
    bool timed_out = false;
    Watchdog watchdog(loop.impl().deadlines, [&] {
      timed_out = true;
      close_quietly(socket);
    });
    if (call.timeouts.connect.count() > 0 && endpoints->size() > 1) {
      watchdog.in(call.timeouts.connect / static_cast<long>(endpoints->size()));
    }
    call.abort = [&socket] { close_quietly(socket); };
    const auto [error] = co_await socket.async_connect((*endpoints)[i], kAwait);
    call.abort = nullptr;
    if (call.interrupted) {
      co_return fail(*call.interrupted);
    }
    if (!error) {
      enable_dead_peer_detection(socket);
      co_return socket;
    }
    reason = timed_out ? "no response" : error.message();
  }
  co_return fail(unreachable(where, reason));
}

// Asks the proxy to connect to the server.
Task<Status> Client::Impl::open_tunnel(Call::Impl& call, ClientConnection& connection) {
  const std::string authority = url.authority();
  const std::string head = fmt::format("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\nUser-Agent: {1}\r\n{2}\r\n",
                                       authority, options.user_agent, proxy_authorization(*options.proxy));
  const std::string proxy = options.proxy->authority();
  const Io written = co_await connection.stream.write(head);
  if (call.interrupted) {
    co_return fail(*call.interrupted);
  }
  if (written.error) {
    co_return fail(unreachable(*options.proxy, written.error.message()));
  }
  struct DiscardBody final : BodySink {
    bool on_body(std::string_view /*piece*/) override { return true; }
  } no_body;
  MessageReader reader(MessageKind::kResponse, {});
  reader.start(/*head_only=*/true);
  std::string received;
  while (!reader.done()) {
    std::array<char, 4096> room{};
    const Io got = co_await connection.stream.read_some(room);
    if (call.interrupted) {
      co_return fail(*call.interrupted);
    }
    if (got.error) {
      co_return fail(ErrorCode::kUnavailable,
                     fmt::format("proxy {} closed the connection on CONNECT {}", proxy, authority));
    }
    received.append(room.data(), got.bytes);
    const auto used = reader.feed(received, no_body);
    if (!used) {
      co_return fail(ErrorCode::kInvalid, fmt::format("proxy {}: {}", proxy, used.error().text));
    }
    received.erase(0, *used);
  }
  const int status = reader.head().status;
  if (status / 100 != 2) {
    co_return fail(
        status == 403 || status == 407 ? ErrorCode::kDenied : ErrorCode::kUnavailable,
        fmt::format("proxy {} refused CONNECT {}: {} {}", proxy, authority, status, reader.head().reason));
  }
  co_return Status{};
}

Task<Result<std::unique_ptr<ClientConnection>>> Client::Impl::connect(std::shared_ptr<Call::Impl> call) {
  call->start_stage(call->timeouts.connect, "connecting");
  const Url& first = options.proxy ? *options.proxy : url;
  Result<Socket> socket = co_await connect_tcp(*call, first);
  if (!socket) {
    co_return fail(std::move(socket).error());
  }
  auto connection = std::make_unique<ClientConnection>(*std::move(socket));
  call->abort = [raw = connection.get()] { raw->stream.close(); };
  if (options.proxy && url.tls) {
    Status opened = co_await open_tunnel(*call, *connection);
    if (!opened) {
      co_return fail(std::move(opened).error());
    }
  }
  if (url.tls) {
    const std::string& name = options.tls.server_name.empty() ? url.host : options.tls.server_name;
    Status secured =
        co_await connection->stream.start_tls(tls->current(), name, !options.tls.insecure_skip_verify);
    if (call->interrupted) {
      co_return fail(*call->interrupted);
    }
    if (!secured) {
      co_return fail(std::move(secured).error());
    }
  }
  co_return connection;
}

}  // namespace tessera::http
