// A fake API server for benchmarks, in this process on its own thread. It serves lists from
// prepared bytes, streams events as fast as the client reads them, and accepts every POST.
#pragma once

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "http/event_loop.h"
#include "http/server.h"
#include "kube/kubeconfig.h"
#include "test_certificates.h"

namespace tessera::bench {

inline constexpr std::size_t kEvents = 60'000;  // events of the pod watch
inline constexpr std::size_t kPage = 500;

class ApiServer {
 public:
  ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;
  ~ApiServer();

  [[nodiscard]] kube::ClusterAccess access() const;

 private:
  void answer(http::Request& request, http::Reply reply);
  void pump();

  http::TestAuthority authority_;
  std::vector<std::string> nodes_;
  std::vector<std::string> pods_;
  http::EventLoop loop_;
  http::ReplyStream stream_;
  http::Timer timer_;
  std::size_t sent_ = 0;
  std::optional<http::Server> server_;
  std::thread thread_;
};

}  // namespace tessera::bench
