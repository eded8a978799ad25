// What an agent needs around it to be measured as a program of its own: an API server that knows the pods of
// one node, kubelet's podresources, and the process itself. kubelet's other half is
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

// Pods of one node and the Node. On a thread of its own.
class BenchApi {
 public:
  BenchApi();
  ~BenchApi();
  BenchApi(const BenchApi&) = delete;
  BenchApi& operator=(const BenchApi&) = delete;

  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  // A pod of one unit of this GPU is bound. `told`: by the watch; else only who asks learns of it.
  void bind(const std::string& name, const std::string& gpu, bool told);
  // The watch catches up.
  void tell();

 private:
  void serve(http::Request& request, http::Reply reply);
  http::Response node(const http::Request& request);
  [[nodiscard]] std::string list(const boost::json::array& items) const;
  void send(const boost::json::object& pod);

  http::EventLoop loop_;
  boost::json::object node_;
  boost::json::array told_;
  boost::json::array untold_;
  int version_ = 1;
  std::vector<http::ReplyStream> watches_;
  std::unique_ptr<http::Server> server_;
  std::thread thread_;
};

// podresources of a kubelet that is admitting one pod: it knows that one and those before, without devices.
class BenchPodResources final : public v1::PodResourcesLister::Service {
 public:
  explicit BenchPodResources(const std::string& socket);
  ~BenchPodResources() override;

  // Pods "p0" to "p<count - 1>" are known from now on.
  void admit(int count) { known_ = count; }

 private:
  grpc::Status Get(grpc::ServerContext* context, const v1::GetPodResourcesRequest* request,
                   v1::GetPodResourcesResponse* response) override;

  std::atomic<int> known_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A program that runs until this goes.
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
