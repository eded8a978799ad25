// How a Server writes its answers, whole or in pieces, and ends a connection after the last one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "http/server_core.h"

namespace tessera::http {
namespace {

// How long and how much we listen to a peer that we will not answer any more, so that it can read our last
// answer: closing a socket with unread bytes resets the connection and may take the answer with it.
constexpr std::chrono::seconds kLingerTime{2};
constexpr std::size_t kLingerBytes = 4U << 20U;
constexpr std::size_t kLingerRead = 4U << 10U;
// What is kept of the memory that an answer was built in.
constexpr std::size_t kSpareAnswerBytes = 1U << 20U;

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

void ServerConnection::build_head(const Response& response, bool in_pieces) {
  head_.clear();
  auto out = std::back_inserter(head_);
  fmt::format_to(out, "HTTP/1.1 {} {}\r\n", response.status, status_text(response.status));
  head_ += core_->date_field();
  if (!response.content_type.empty() && is_one_line(response.content_type)) {
    fmt::format_to(out, "Content-Type: {}\r\n", response.content_type);
  }
  for (const auto& [name, value] : response.headers) {
    if (is_one_line(name) && is_one_line(value)) {
      fmt::format_to(out, "{}: {}\r\n", name, value);
    }
  }
  if (in_pieces) {
    head_ += "Transfer-Encoding: chunked\r\n";
  } else if (response.status != 204 && response.status != 304) {
    fmt::format_to(out, "Content-Length: {}\r\n", response.body.size());
  }
  if (!keep_) {
    head_ += "Connection: close\r\n";
  } else if (reader_.head().version == 10) {
    head_ += "Connection: keep-alive\r\n";
  }
  head_ += "\r\n";
}

Task<bool> ServerConnection::write_answer() {
  if (pieces_state_ != nullptr) {
    co_return co_await write_pieces();
  }
  // Bytes that came before our answer are a pipelined request, or the end of what the peer has to say.
  keep_ = keep_ && !core_->draining && in_.empty() && !stream_.readable();
  keep_ = keep_ && !(core_->options.let_go && core_->options.let_go());
  build_head(response_, false);
  watchdog_.in(core_->options.write_timeout);
  const bool no_body = reader_.head_done() && reader_.head().method == "HEAD";
  const Io written = co_await stream_.write(head_, no_body ? std::string_view() : response_.body);
  if (written.error) {
    co_return false;
  }
  note_access(written.bytes);
  if (response_.body.capacity() <= kSpareAnswerBytes) {
    spare_ = std::move(response_.body);
  }
  response_.body.clear();
  co_return true;
}

// The connection ends with the answer: we read all the while to see the peer hang up, and what was read is
// gone.
Task<bool> ServerConnection::write_pieces() {
  keep_ = false;
  const bool chunked = reader_.head().version == 11;
  build_head(response_, true);
  if (!chunked) {
    const std::size_t at = head_.find("Transfer-Encoding");
    head_.erase(at, head_.find("\r\n", at) + 2 - at);
  }
  watchdog_.in(core_->options.write_timeout);
  std::uint64_t bytes = 0;
  Io written = co_await stream_.write(head_);
  if (written.error) {
    co_return false;
  }
  asio::co_spawn(core_->executor(), watch_for_hang_up(), asio::detached);
  if (core_->draining) {
    drain();  // it was begun too late for anything but its end
  }
  while (!stream_.closed()) {
    if (!pieces_.empty()) {
      const std::string batch = std::exchange(pieces_, {});
      const std::string size = chunked ? fmt::format("{:x}\r\n", batch.size()) : std::string();
      watchdog_.in(core_->options.write_timeout);
      written = co_await stream_.write(size, batch);
      if (!written.error && chunked) {
        written = co_await stream_.write("\r\n");
      }
      if (written.error) {
        break;
      }
      bytes += batch.size();
      pieces_state_->backlog -= batch.size();
    } else if (pieces_over_) {
      break;
    } else {
      watchdog_.off();
      gate_.expires_at(SteadyTime::max());
      co_await gate_.async_wait(kAwait);
    }
  }
  pieces_state_->open = false;
  note_access(bytes);
  if (stream_.closed() || !pieces_complete_ || written.error) {
    co_return false;
  }
  if (chunked) {
    written = co_await stream_.write("0\r\n\r\n");
  }
  co_return !written.error;
}

Task<void> ServerConnection::watch_for_hang_up() {
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
  watchdog_.in(kLingerTime);
  co_await stream_.shut_down();
  if (pieces_state_ != nullptr) {
    while (!stream_.closed()) {  // watch_for_hang_up is reading
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

void ServerConnection::note_access(std::uint64_t bytes_out) {
  if (core_->options.on_access == nullptr) {
    return;
  }
  const bool known = reader_.head_done();
  core_->options.on_access({.route = request_.route_.empty() ? std::string_view("other") : request_.route_,
                            .method = known ? std::string_view(reader_.head().method) : std::string_view(),
                            .status = response_.status,
                            .bytes_in = body_.size(),
                            .bytes_out = bytes_out,
                            .took = std::chrono::steady_clock::now() - head_at_});
}

}  // namespace tessera::http
