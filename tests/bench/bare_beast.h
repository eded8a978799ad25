// The baseline: plain HTTP with Boost.Beast. No limits, no timeouts; any error ends the connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tessera::bench {

// Serves keep-alive connections on the thread that calls run(). Reads the head with Beast and the
// body directly into a reused buffer, which is the fastest way we know (a default flat_buffer is
// six times slower), and answers with `reply`.
class BareServer {
 public:
  explicit BareServer(std::string reply);
  ~BareServer();
  [[nodiscard]] std::uint16_t port() const;
  void run();
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct BareRequest {
  std::string target;
  std::vector<std::pair<std::string, std::string>> fields;  // in addition to Host and Content-Length
  std::string body;
};

// Sends POST requests over `connections` connections until `requests` responses have arrived in
// total. Runs on the calling thread.
void bare_client(std::uint16_t port, const BareRequest& request, std::size_t connections,
                 std::size_t requests);

}  // namespace tessera::bench
