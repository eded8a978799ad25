// Writing the responses of a Server, whole or in pieces, and closing a connection after the last
// one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "http/server_impl.h"

namespace tessera::http {
namespace {

// After the last response, keep reading for this long and up to this many bytes. Closing a socket
// with unread bytes resets the connection, and the peer may lose the response.
constexpr std::chrono::seconds kLingerTime{2};
constexpr std::size_t kLingerBytes = 4U << 20U;
constexpr std::size_t kLingerRead = 4U << 10U;
// Largest response body whose memory is kept for reuse.
constexpr std::size_t kSpareResponseBytes = 1U << 20U;

}  // namespace

std::string_view status_text(int status) {
  struct Entry {
    int status;
    std::string_view text;
  };
  static constexpr Entry kTexts[] = {
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {410, "Gone"},
      {413, "Content Too Large"},
      {415, "Unsupported Media Type"},
      {422, "Unprocessable Content"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
  };
  const auto* found = std::find_if(std::begin(kTexts), std::end(kTexts),
                                   [&](const Entry& entry) { return entry.status == status; });
  return found == std::end(kTexts) ? "Status" : found->text;
}

void ServerConnection::build_head(const Response& response, bool chunked) {
  head_.clear();
  auto out = std::back_inserter(head_);
  fmt::format_to(out, "HTTP/1.1 {} {}\r\n", response.status, status_text(response.status));
  head_ += server_->date_field();
  if (!response.content_type.empty() && is_one_line(response.content_type)) {
    fmt::format_to(out, "Content-Type: {}\r\n", response.content_type);
  }
  for (const auto& [name, value] : response.headers) {
    if (is_one_line(name) && is_one_line(value)) {
      fmt::format_to(out, "{}: {}\r\n", name, value);
    }
  }
  if (chunked) {
    head_ += "Transfer-Encoding: chunked\r\n";
  } else if (response.status != 204 && response.status != 304) {
    fmt::format_to(out, "Content-Length: {}\r\n", response.body.size());
  }
  if (!keep_alive_) {
    head_ += "Connection: close\r\n";
  } else if (reader_.head().version == 10) {
    head_ += "Connection: keep-alive\r\n";
  }
  head_ += "\r\n";
}

Task<bool> ServerConnection::write_response() {
  if (reply_stream_ != nullptr) {
    co_return co_await write_stream();
  }
  // Bytes that arrive before our response are a pipelined request. A socket is also readable if the
  // peer closed it. In both cases the connection cannot be kept.
  keep_alive_ = keep_alive_ && !server_->draining && in_.empty() && !stream_.readable();
  keep_alive_ =
      keep_alive_ && !(server_->options.close_after_response && server_->options.close_after_response());
  build_head(response_, false);
  watchdog_.in(server_->options.write_timeout);
  const bool no_body = reader_.head_done() && reader_.head().method == "HEAD";
  server_->make_room_for_response(response_.body.size());
  set_unsent(response_.body.size());
  const Io written = co_await stream_.write(head_, no_body ? std::string_view() : response_.body);
  set_unsent(0);
  if (written.error) {
    co_return false;
  }
  report_access(written.bytes);
  if (response_.body.capacity() <= kSpareResponseBytes) {
    spare_ = std::move(response_.body);
  }
  response_.body.clear();
  co_return true;
}

void ServerConnection::set_unsent(std::uint64_t bytes) {
  server_->responses_bytes += bytes - unsent_;
  unsent_ = bytes;
}

// Writes the pieces as they arrive. The connection cannot be reused: watch_for_close() discards
// whatever the peer sends during the response, which may include the next request.
Task<bool> ServerConnection::write_stream() {
  keep_alive_ = false;
  const bool chunked = reader_.head().version == 11;
  build_head(response_, true);
  if (!chunked) {
    const std::size_t at = head_.find("Transfer-Encoding");
    head_.erase(at, head_.find("\r\n", at) + 2 - at);
  }
  watchdog_.in(server_->options.write_timeout);
  std::uint64_t bytes = 0;
  Io written = co_await stream_.write(head_);
  if (written.error) {
    co_return false;
  }
  asio::co_spawn(server_->executor(), watch_for_close(), asio::detached);
  if (server_->draining) {
    drain();  // the stream was started while the server was draining
  }
  while (!stream_.closed()) {
    if (!pending_.empty()) {
      const std::string batch = std::exchange(pending_, {});
      const std::string size = chunked ? fmt::format("{:x}\r\n", batch.size()) : std::string();
      watchdog_.in(server_->options.write_timeout);
      written = co_await stream_.write(size, batch);
      if (!written.error && chunked) {
        written = co_await stream_.write("\r\n");
      }
      if (written.error) {
        break;
      }
      bytes += batch.size();
      reply_stream_->backlog -= batch.size();
    } else if (reply_stream_ended_) {
      break;
    } else {
      watchdog_.off();
      gate_.expires_at(SteadyTime::max());
      co_await gate_.async_wait(kAwait);
    }
  }
  reply_stream_->open = false;
  report_access(bytes);
  if (stream_.closed() || !reply_stream_complete_ || written.error) {
    co_return false;
  }
  if (chunked) {
    written = co_await stream_.write("0\r\n\r\n");
  }
  co_return !written.error;
}

Task<void> ServerConnection::watch_for_close() {
  const std::shared_ptr<ServerConnection> self = shared_from_this();
  std::array<char, 512> nothing{};
  while (!stream_.closed()) {
    const Io got = co_await stream_.read_some(nothing);
    if (got.error) {
      close();
    }
  }
}

Task<void> ServerConnection::linger() {
  established_ = false;
  watchdog_.in(kLingerTime);
  co_await stream_.shut_down();
  if (reply_stream_ != nullptr) {
    while (!stream_.closed()) {  // watch_for_close() is reading
      gate_.expires_at(SteadyTime::max());
      co_await gate_.async_wait(kAwait);
    }
    co_return;
  }
  const std::span<char> room = in_.prepare(kLingerRead);
  for (std::size_t total = 0; total < kLingerBytes;) {
    const Io got = co_await stream_.read_some(room);
    if (got.error) {
      break;
    }
    total += got.bytes;
  }
}

void ServerConnection::report_access(std::uint64_t bytes_out) {
  if (server_->options.on_access == nullptr) {
    return;
  }
  const bool known = reader_.head_done();
  server_->options.on_access({.route = request_.route_.empty() ? std::string_view("other") : request_.route_,
                              .method = known ? std::string_view(reader_.head().method) : std::string_view(),
                              .status = response_.status,
                              .bytes_in = body_.size(),
                              .bytes_out = bytes_out,
                              .took = std::chrono::steady_clock::now() - head_at_});
}

}  // namespace tessera::http
