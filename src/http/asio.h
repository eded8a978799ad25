// http/asio.h
//
// Short names for the Boost.Asio types that src/http uses. Private to the .cc files of this folder.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>

namespace tessera::http {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

// The concrete executor instead of Asio's type-erased one: no virtual calls, no reference counting.
using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<tcp, Executor>;
using SteadyTimer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                               asio::wait_traits<std::chrono::steady_clock>, Executor>;
using SteadyTime = std::chrono::steady_clock::time_point;

template <class T>
using Task = asio::awaitable<T, Executor>;

// co_await operation(..., kAwait) returns (error, values...) and does not throw.
inline constexpr asio::as_tuple_t<asio::use_awaitable_t<Executor>> kAwait{};

// Close a socket (close_quietly) or only its sending side (end_sending_quietly). Errors are
// ignored, because the socket is being discarded.
template <class AnySocket>
void close_quietly(AnySocket& socket) {
  error_code ignored;
  ignored = socket.close(ignored);
}
inline void end_sending_quietly(Socket& socket) {
  error_code ignored;
  ignored = socket.shutdown(Socket::shutdown_send, ignored);
}

}  // namespace tessera::http
