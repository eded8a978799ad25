#include "bare_beast.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cstring>
#include <vector>

namespace tessera::bench {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<tcp, Executor>;
using Acceptor = asio::basic_socket_acceptor<tcp, Executor>;
template <class T>
using Task = asio::awaitable<T, Executor>;
constexpr asio::as_tuple_t<asio::use_awaitable_t<Executor>> kAwait{};

Task<void> serve(Socket socket, const std::string& reply) {
  socket.set_option(tcp::no_delay(true));
  boost::beast::flat_buffer in;
  in.reserve(4096);
  std::vector<char> body(256U << 10U);
  while (true) {
    http::request_parser<http::buffer_body> parser;
    parser.body_limit(16U << 20U);
    const auto [head_error, head_bytes] = co_await http::async_read_header(socket, in, parser, kAwait);
    if (head_error) {
      co_return;
    }
    const std::size_t length = static_cast<std::size_t>(parser.content_length().value_or(0));
    body.resize(std::max(body.size(), length + 64));
    const std::size_t have = std::min(in.size(), length);
    std::memcpy(body.data(), in.data().data(), have);
    in.consume(have);
    if (have < length) {
      const auto [error, bytes] =
          co_await asio::async_read(socket, asio::buffer(body.data() + have, length - have), kAwait);
      if (error) {
        co_return;
      }
    }
    http::response<http::string_body> response(http::status::ok, 11);
    response.set(http::field::content_type, "application/json");
    response.body() = reply;
    response.prepare_payload();
    const auto [error, bytes] = co_await http::async_write(socket, response, kAwait);
    if (error) {
      co_return;
    }
  }
}

Task<void> accept(Acceptor& acceptor, const std::string& reply) {
  while (true) {
    Socket socket(acceptor.get_executor());
    const auto [error] = co_await acceptor.async_accept(socket, kAwait);
    if (error) {
      co_return;
    }
    asio::co_spawn(acceptor.get_executor(), serve(std::move(socket), reply), asio::detached);
  }
}

Task<void> send(asio::io_context& io, std::uint16_t port, const BareRequest& wanted, std::size_t& left) {
  Socket socket(io.get_executor());
  co_await socket.async_connect({asio::ip::address_v4::loopback(), port}, kAwait);
  socket.set_option(tcp::no_delay(true));
  boost::beast::flat_buffer in;
  in.reserve(64U << 10U);
  while (left > 0) {
    --left;
    http::request<http::string_body> request(http::verb::post, wanted.target, 11);
    request.set(http::field::host, "127.0.0.1");
    for (const auto& [name, value] : wanted.fields) {
      request.set(name, value);
    }
    request.body() = wanted.body;
    request.prepare_payload();
    const auto [write_error, written] = co_await http::async_write(socket, request, kAwait);
    http::response<http::string_body> response;
    const auto [read_error, got] = co_await http::async_read(socket, in, response, kAwait);
    if (write_error || read_error) {
      co_return;
    }
  }
}

}  // namespace

struct BareServer::Impl {
  explicit Impl(std::string text)
      : reply(std::move(text)), acceptor(io.get_executor(), {asio::ip::address_v4::loopback(), 0}) {}
  asio::io_context io{1};
  std::string reply;
  Acceptor acceptor;
};

BareServer::BareServer(std::string reply) : impl_(std::make_unique<Impl>(std::move(reply))) {
  asio::co_spawn(impl_->io.get_executor(), accept(impl_->acceptor, impl_->reply), asio::detached);
}

BareServer::~BareServer() = default;

std::uint16_t BareServer::port() const {
  return impl_->acceptor.local_endpoint().port();
}

void BareServer::run() {
  impl_->io.run();
}

void BareServer::stop() {
  impl_->io.stop();
}

void bare_client(std::uint16_t port, const BareRequest& request, std::size_t connections,
                 std::size_t requests) {
  asio::io_context io{1};
  std::size_t left = requests;
  for (std::size_t i = 0; i < connections; ++i) {
    asio::co_spawn(io.get_executor(), send(io, port, request, left), asio::detached);
  }
  io.run();
}

}  // namespace tessera::bench
