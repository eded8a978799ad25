// One client connection of the fault proxy. Each relay runs on its own thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "fault.h"
#include "http/message_reader.h"
#include "http/tls_context.h"
#include "http/url.h"
#include "pipe_end.h"

namespace tessera::proxy {

// Shared by all relays of a proxy.
class RelayHost {
 public:
  virtual ~RelayHost() = default;
  // Returns the fault for this request, if any, and counts it.
  virtual std::optional<Fault> fault_for(const std::string& method, const std::string& target) = 0;
  virtual void record(const std::string& method, const std::string& target, int status, bool faulty) = 0;
  [[nodiscard]] virtual bool frozen() const = 0;
  // Incremented when faults are cleared; stalled streams then continue.
  [[nodiscard]] virtual std::uint64_t cleared() const = 0;

  http::Url upstream;
  http::TlsContext upstream_tls;  // null: plain HTTP
  http::TlsContext client_tls;    // null: plain HTTP
};

class Relay {
 public:
  Relay(RelayHost& host, Fd client);

  // Serves the client until the client or the server closes its connection, or cut() is called.
  void run();

  // Wakes the relay after a change of the host. Any thread.
  void poke();
  // Closes both connections. Any thread.
  void cut(bool reset);
  [[nodiscard]] bool finished() const { return finished_; }

 private:
  enum class Ready { kUpstream, kClient, kPoked, kTime };

  struct Exchange {
    std::string method;
    std::string target;
    std::string body;
    std::optional<Fault> fault;
    bool lines = false;      // the response is a stream of lines (a watch)
    std::size_t line = 0;    // number of forwarded lines
    std::size_t passed = 0;  // number of forwarded bytes of the response body
    bool chunked = false;
    int status = 0;
  };

  bool serve_one();
  bool read_request(Exchange& exchange, std::string& head);
  bool respond(const Exchange& exchange);
  bool connect_upstream();
  bool relay_response(Exchange& exchange);
  bool send_head(Exchange& exchange, const http::MessageHead& head);
  bool send_body(Exchange& exchange, std::string& held, std::string_view piece);
  bool send_line(Exchange& exchange, std::string_view line);
  bool send_piece(Exchange& exchange, std::string_view piece);
  bool hang_up(const Exchange& exchange);
  bool stall();
  bool wait_while_frozen();
  // Returns false after cut().
  bool wait(bool for_upstream, bool for_client, int timeout_ms, Ready& ready);

  RelayHost& host_;
  // Guards the two pointers: only the relay's thread replaces them, but cut() uses them on other
  // threads.
  std::mutex mutex_;
  std::unique_ptr<PipeEnd> client_;
  std::unique_ptr<PipeEnd> upstream_;
  Fd wake_;
  std::string in_;  // received from the client, not yet parsed
  http::MessageReader requests_;
  std::atomic<bool> cut_ = false;
  std::atomic<bool> finished_ = false;
  bool ended_early_ = false;  // the upstream connection is inside a response and cannot be reused
};

}  // namespace tessera::proxy
