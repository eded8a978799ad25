// http/server_impl.h
//
// The hidden parts of Server, Reply and ReplyStream. Private to the .cc files of this folder.
// Everything is used only on the loop's thread, except the atomics.
#pragma once

#include <atomic>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "http/asio.h"
#include "http/event_loop_impl.h"
#include "http/message_reader.h"
#include "http/server.h"
#include "http/stream.h"
#include "http/tls_context.h"
#include "http/watchdog.h"

namespace tessera::http {

class ServerConnection;

struct Reply::Impl {
  Impl(EventLoop& owner, std::shared_ptr<ServerConnection> peer) : loop(owner), connection(std::move(peer)) {}
  EventLoop& loop;
  // Keeps the connection object alive after the peer has closed the connection, because the handler
  // may still read the request.
  std::shared_ptr<ServerConnection> connection;
};

// Shared by the writer's thread and the loop.
struct ReplyStream::Impl {
  explicit Impl(EventLoop& owner) : loop(owner) {}
  EventLoop& loop;
  std::weak_ptr<ServerConnection> connection;
  std::atomic<bool> open = true;
  std::atomic<std::size_t> backlog = 0;
};

// The connection of one peer.
class ServerConnection : public std::enable_shared_from_this<ServerConnection>, private BodySink {
 public:
  ServerConnection(std::shared_ptr<Server::Impl> server, Socket socket);
  ~ServerConnection() override;

  // Serves requests until the connection ends.
  Task<void> serve();

  // Called by Reply and ReplyStream, on the loop.
  void set_response(Response response);
  void start_stream(Response response, std::shared_ptr<ReplyStream::Impl> stream);
  void append_to_stream(std::string_view piece);
  void end_stream(bool complete);
  std::string recycled();

  // How much is lost if the connection is closed to make room, in ascending order.
  enum class Worth {
    kHalfOpen,     // no request was completed yet, or the last response was sent
    kEstablished,  // a request was answered, and more may follow
    kBusy,         // a request is in the handler
  };
  [[nodiscard]] Worth worth() const {
    return in_handler_ ? Worth::kBusy : established_ ? Worth::kEstablished : Worth::kHalfOpen;
  }
  // The start of the current step: waiting for a request, reading it, or writing the response.
  [[nodiscard]] SteadyTime since() const { return since_; }
  [[nodiscard]] const asio::ip::address& address() const { return address_; }
  // Memory that is reserved for the body of the request.
  [[nodiscard]] std::uint64_t reserved() const { return reserved_; }
  // Size of the response body that is being written.
  [[nodiscard]] std::uint64_t unsent() const { return unsent_; }
  void set_unsent(std::uint64_t bytes);
  void close();
  // Closes the connection: now if it is idle, otherwise after the response.
  void drain();

 private:
  // The result of a step of reading a request.
  enum class Got {
    kRequest,   // no error: the request is complete, or more of it has to be read
    kNothing,   // the connection ended
    kRejected,  // the request is invalid; response_ is the error response
  };

  bool on_body(std::string_view piece) override;
  void on_timeout();
  Task<bool> handshake();
  Task<Got> read_request();
  Task<Io> read_more();
  Task<Got> consume(Io got);
  Task<Got> on_head();
  Got reject(int status, std::string_view text);
  // Sets this connection's part of the server's memory for bodies to `bytes`. Closes connections
  // whose bodies do not arrive, if necessary. Returns false if all connections together would still
  // exceed max_bodies_bytes.
  bool reserve(std::uint64_t bytes);
  // Like reserve(), for the body so far and the next read.
  bool reserve_next_step();
  [[nodiscard]] std::uint64_t next_step() const;
  Got reject_for_memory();
  Task<bool> dispatch();
  // Write the response. Return false if the connection must be closed at once.
  Task<bool> write_response();
  Task<bool> write_stream();
  // Reads during a streamed response, only to detect that the peer closes the connection.
  Task<void> watch_for_close();
  // Waits for the peer to close the connection, up to a limit.
  Task<void> linger();
  void report_access(std::uint64_t bytes_out);
  void build_head(const Response& response, bool chunked);

  std::shared_ptr<Server::Impl> server_;
  Stream stream_;
  Watchdog watchdog_;
  MessageReader reader_;
  json::PaddedBuffer in_;       // bytes read and not yet consumed
  json::PaddedBuffer body_;     // borrowed from the server
  std::uint64_t reserved_ = 0;  // bytes reserved for body_
  std::uint64_t unsent_ = 0;
  asio::ip::address address_;  // of the peer
  Request request_;
  SteadyTime head_at_{};  // end of the request's head
  SteadyTime since_;
  SteadyTimer gate_;  // serve() waits on it for the response or more pieces of it
  Response response_;
  std::string head_;
  std::string spare_;    // memory of the last response body
  std::string pending_;  // unsent bytes of a streamed response
  std::shared_ptr<ReplyStream::Impl> reply_stream_;
  bool responded_ = false;
  bool reply_stream_ended_ = false;
  bool reply_stream_complete_ = false;
  bool idle_ = false;
  bool in_handler_ = false;
  bool established_ = false;  // a request was completed, and the connection is not ending
  bool reading_ = false;
  bool direct_ = false;      // the body is read directly into body_
  bool timed_out_ = false;   // the watchdog expired
  bool keep_alive_ = false;  // the connection stays open after this response
};

struct Server::Impl : std::enable_shared_from_this<Server::Impl> {
  Impl(EventLoop& owner, ServerOptions settings, Handler what, std::optional<RotatingTls> material);

  EventLoop& loop;
  ServerOptions options;
  Handler handler;
  std::optional<RotatingTls> tls;
  asio::basic_socket_acceptor<tcp, Executor> acceptor;
  std::uint16_t port = 0;
  std::set<std::shared_ptr<ServerConnection>> connections;
  std::map<asio::ip::address, std::size_t> by_peer;  // number of connections
  std::vector<json::PaddedBuffer> spare_bodies;
  std::uint64_t bodies_bytes = 0;     // reserved by connections
  std::uint64_t responses_bytes = 0;  // unsent() of all connections
  bool draining = false;
  std::function<void()> drained;
  Watchdog drain_watchdog;

  struct Counters {
    std::atomic<std::uint64_t> connections, in_flight, accepted, refused_full, evicted, bad_requests,
        timeouts, tls_failures;
  } counters{};

  [[nodiscard]] Executor executor() const { return loop.impl().io.get_executor(); }
  Status listen();
  Task<void> accept();
  void add_connection(Socket socket);
  // Closes a connection to make room for one from `peer`, if necessary. Returns false if there is
  // no room.
  bool make_room(const asio::ip::address& peer);
  // Closes connections whose peers do not read, if necessary, before `bytes` more are written.
  void make_room_for_response(std::uint64_t bytes);
  // Closes connections that wait for the rest of a body until all together may reserve `bytes` more.
  // If the peer with the most memory has more than the asking peer, closes connections of that peer;
  // otherwise closes old connections of the asking peer. Returns false if there is still no room.
  bool make_room_for_body(std::uint64_t bytes, const ServerConnection& asking);
  // Closes the least valuable of the connections that `may_close` accepts. Returns false if there
  // is none.
  bool evict(const std::function<bool(const ServerConnection&)>& may_close);
  void close_all();
  void remove(const std::shared_ptr<ServerConnection>& connection);
  json::PaddedBuffer take_body_buffer();
  void return_body_buffer(json::PaddedBuffer body);
  // Returns "Date: ...\r\n" for the current second.
  std::string_view date_field();

 private:
  std::string date_;
  std::time_t date_second_ = 0;
};

// Returns the reason phrase of a status: "Not Found" for 404.
std::string_view status_text(int status);

}  // namespace tessera::http
