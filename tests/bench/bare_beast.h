// The yardstick: HTTP with Boost.Beast and nothing around it. No limits, no time-outs, no errors but the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tessera::bench {

// Serves keep-alive connections on the thread that calls run(): reads the head with Beast and the body
// straight into a reused buffer, as fast as we know how (a default flat_buffer is six times slower), and
// answers `reply`.
class BareServer {
 public:
  explicit BareServer(std::string reply);
  ~BareServer();
  [[nodiscard]] std::uint16_t port() const;
  void run();
  void stop();

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

struct BareRequest {
  std::string target;
  std::vector<std::pair<std::string, std::string>> fields;  // beside Host and Content-Length
  std::string body;
};

// `connections` coroutines, each with a connection of its own, POST to the port until `requests` answers have
// come in all. On the calling thread.
void bare_client(std::uint16_t port, const BareRequest& request, std::size_t connections,
                 std::size_t requests);

}  // namespace tessera::bench
