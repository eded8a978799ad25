// http/server_core.h
//
// The inside of Server. For the .cc files of this folder; everything is touched on the loop's thread alone,
// but for the atomics.
#pragma once

#include <atomic>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "http/asio.h"
#include "http/event_loop_core.h"
#include "http/message_reader.h"
#include "http/server.h"
#include "http/stream.h"
#include "http/tls_context.h"
#include "http/watchdog.h"

namespace tessera::http {

class ServerConnection;

struct Reply::State {
  State(EventLoop& owner, std::shared_ptr<ServerConnection> who) : loop(owner), connection(std::move(who)) {}
  EventLoop& loop;
  // Holds it, also when the peer is gone: the handler may still read the request.
  std::shared_ptr<ServerConnection> connection;
};

// Between the writer's thread and the loop.
struct ReplyStream::State {
  explicit State(EventLoop& owner) : loop(owner) {}
  EventLoop& loop;
  std::weak_ptr<ServerConnection> connection;
  std::atomic<bool> open = true;
  std::atomic<std::size_t> backlog = 0;
};

// One peer.
class ServerConnection : public std::enable_shared_from_this<ServerConnection>, private BodySink {
 public:
  ServerConnection(std::shared_ptr<Server::Core> core, Socket socket);
  ~ServerConnection() override;

  // The life of the connection.
  Task<void> serve();

  // Answers from Reply and ReplyStream, on the loop.
  void answer(Response response);
  void answer_in_pieces(Response response, std::shared_ptr<ReplyStream::State> stream);
  void write_piece(std::string_view piece);
  void end_pieces(bool complete);
  std::string recycled();

  [[nodiscard]] bool idle() const { return idle_; }
  [[nodiscard]] SteadyTime idle_since() const { return idle_since_; }
  void close();
  // The server wants to end: close when idle, else after the answer.
  void drain();

 private:
  enum class Got { kRequest, kNothing, kFault };

  bool on_body(std::string_view piece) override;
  void on_late();
  Task<bool> greet();
  Task<Got> read_request();
  Task<Io> read_more();
  Task<Got> digest(Io got);
  Task<Got> on_head();
  Got fault(int status, std::string_view text);
  // Makes the body's memory count for `bytes`; false when all bodies together would be too large.
  bool claim(std::uint64_t bytes);
  bool claim_next_step();
  [[nodiscard]] std::uint64_t next_step() const;
  Got too_much();
  Task<bool> hand_over();
  Task<bool> write_answer();
  Task<bool> write_pieces();
  Task<void> watch_for_hang_up();
  Task<void> linger();
  void note_access(std::uint64_t bytes_out);
  void build_head(const Response& response, bool in_pieces);

  std::shared_ptr<Server::Core> core_;
  Stream stream_;
  Watchdog watchdog_;
  MessageReader reader_;
  json::PaddedBuffer in_;      // bytes read and not yet consumed
  json::PaddedBuffer body_;    // borrowed from the core while there is one
  std::uint64_t claimed_ = 0;  // what body_ counts for in the core's sum
  Request request_;
  SteadyTime head_at_{};
  SteadyTime idle_since_{};
  SteadyTimer gate_;  // where we wait for the answer
  Response response_;
  std::string head_;
  std::string spare_;   // memory of the last answer
  std::string pieces_;  // of a streamed answer: what waits to be written
  std::shared_ptr<ReplyStream::State> pieces_state_;
  bool answered_ = false;
  bool pieces_over_ = false;
  bool pieces_complete_ = false;
  bool idle_ = false;
  bool reading_ = false;
  bool direct_ = false;  // the body is being read into its place
  bool late_ = false;    // the watchdog bit
  bool keep_ = false;    // whether the connection goes on after this answer
};

struct Server::Core : std::enable_shared_from_this<Server::Core> {
  Core(EventLoop& owner, ServerOptions settings, Handler what, std::optional<RotatingTls> material);

  EventLoop& loop;
  ServerOptions options;
  Handler handler;
  std::optional<RotatingTls> tls;
  asio::basic_socket_acceptor<tcp, Executor> acceptor;
  std::uint16_t port = 0;
  std::set<std::shared_ptr<ServerConnection>> connections;
  std::vector<json::PaddedBuffer> spare_bodies;
  std::uint64_t bodies_bytes = 0;  // claimed by connections
  bool draining = false;
  std::function<void()> drained;
  Watchdog drain_watchdog;

  struct Counters {
    std::atomic<std::uint64_t> connections, in_flight, accepted, refused_full, bad_requests, timeouts,
        tls_failures;
  } counters{};

  [[nodiscard]] Executor executor() const { return loop.core().io.get_executor(); }
  Status listen();
  Task<void> accept();
  void welcome(Socket socket);
  void close_all();
  void gone(const std::shared_ptr<ServerConnection>& connection);
  json::PaddedBuffer take_body();
  void give_body(json::PaddedBuffer body);
  // "Date: ...\r\n" of this second.
  std::string_view date_field();

 private:
  std::string date_;
  std::time_t date_second_ = 0;
};

std::string_view status_text(int status);

}  // namespace tessera::http
