// The environment of an agent that runs as a separate process: an API server with the pods of one
// node, kubelet's pod resources API, and the process itself. The rest of kubelet is
// tests/agent/devices/fake_kubelet.h.
#pragma once

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <atomic>
#include <boost/json.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "http/event_loop.h"
#include "http/server.h"
#include "proto/podresources_v1.grpc.pb.h"

namespace tessera::agent {

inline constexpr const char* kBenchNode = "gpu-a";

// Serves one Node and its pods, on its own thread.
class BenchApi {
 public:
  BenchApi();
  ~BenchApi();
  BenchApi(const BenchApi&) = delete;
  BenchApi& operator=(const BenchApi&) = delete;

  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  // Binds a pod with one unit of this GPU. If `watched` is false, the watch does not report it
  // until catch_up(); only lists contain it.
  void bind(const std::string& name, const std::string& gpu, bool watched);
  // Makes the watch report all pods.
  void catch_up();

 private:
  void serve(http::Request& request, http::Reply reply);
  http::Response node(const http::Request& request);
  [[nodiscard]] std::string list(const boost::json::array& items) const;
  void send(const boost::json::object& pod);

  http::EventLoop loop_;
  boost::json::object node_;
  boost::json::array watched_;
  boost::json::array unwatched_;
  int version_ = 1;
  std::vector<http::ReplyStream> watches_;
  std::unique_ptr<http::Server> server_;
  std::thread thread_;
};

// The pod resources API of a kubelet that is admitting a pod: it knows this pod and the earlier
// ones, without devices.
class BenchPodResources final : public v1::PodResourcesLister::Service {
 public:
  explicit BenchPodResources(const std::string& socket);
  ~BenchPodResources() override;

  // Makes pods "p0" to "p<count - 1>" known.
  void admit(int count) { known_ = count; }

 private:
  grpc::Status Get(grpc::ServerContext* context, const v1::GetPodResourcesRequest* request,
                   v1::GetPodResourcesResponse* response) override;

  std::atomic<int> known_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A child process that the destructor ends.
class BenchProcess {
 public:
  explicit BenchProcess(const std::vector<std::string>& command);
  ~BenchProcess();
  BenchProcess(const BenchProcess&) = delete;
  BenchProcess& operator=(const BenchProcess&) = delete;

  [[nodiscard]] double resident_mb() const;
  [[nodiscard]] double cpu_seconds() const;
  [[nodiscard]] bool runs() const;

 private:
  pid_t pid_ = -1;
};

}  // namespace tessera::agent
