// One client connection of the fault proxy, on a thread of its own.
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

// What all relays of a proxy share.
class RelayHost {
 public:
  virtual ~RelayHost() = default;
  // The fault for this request, if any; counts it.
  virtual std::optional<Fault> fault_for(const std::string& method, const std::string& target) = 0;
  virtual void saw(const std::string& method, const std::string& target, int status, bool faulty) = 0;
  [[nodiscard]] virtual bool frozen() const = 0;
  // Goes up when faults are cleared: what stalls then goes on.
  [[nodiscard]] virtual std::uint64_t cleared() const = 0;

  http::Url upstream;
  http::TlsContext upstream_tls;  // null: plain
  http::TlsContext client_tls;    // likewise
};

class Relay {
 public:
  Relay(RelayHost& host, Fd client);

  // Serves the client until one of the three is gone.
  void run();

  // Any thread: something changed, look again.
  void poke();
  // Any thread: the end.
  void cut(bool reset);
  [[nodiscard]] bool finished() const { return finished_; }

 private:
  enum class Ready { kUpstream, kClient, kPoked, kTime };

  struct Exchange {
    std::string method;
    std::string target;
    std::string body;
    std::optional<Fault> fault;
    bool lines = false;      // the answer is a stream of lines: a watch
    std::size_t line = 0;    // how many have passed
    std::size_t passed = 0;  // bytes of the answer's body that have passed
    bool chunked = false;
    int status = 0;
  };

  bool serve_one();
  bool read_request(Exchange& exchange, std::string& head);
  bool answer(const Exchange& exchange);
  bool reach_upstream();
  bool relay_answer(Exchange& exchange);
  bool send_head(Exchange& exchange, const http::MessageHead& head);
  bool send_body(Exchange& exchange, std::string& held, std::string_view piece);
  bool send_line(Exchange& exchange, std::string_view line);
  bool send_piece(Exchange& exchange, std::string_view piece);
  bool hang_up(const Exchange& exchange);
  bool stall();
  bool wait_while_frozen();
  // False when cut.
  bool wait(bool for_upstream, bool for_client, int timeout_ms, Ready& ready);

  RelayHost& host_;
  std::mutex mutex_;  // guards that the two are there; they are replaced here alone, and cut from elsewhere
  std::unique_ptr<PipeEnd> client_;
  std::unique_ptr<PipeEnd> upstream_;
  Fd wake_;
  std::string in_;  // from the client, not yet used
  http::MessageReader requests_;
  std::atomic<bool> cut_ = false;
  std::atomic<bool> finished_ = false;
  bool ended_early_ =
      false;  // the upstream connection is in the middle of an answer and cannot be used again
};

}  // namespace tessera::proxy
