// Simulates the device plugin of NVIDIA or of gpushare, for tests with a real kubelet.
//
//   other_plugin nvidia.com/gpu nvidia-gpu.sock IDS
//   other_plugin aliyun.com/gpu-mem aliyungpushare.sock IDS ENV
//
// IDS is a file with one device ID per line. All devices are healthy. Allocate returns
// NVIDIA_VISIBLE_DEVICES with the GPUs of the requested IDs, and the variables in the file ENV,
// which is read at each call. Like both plugins, it implements neither preferred IDs nor
// PreStartContainer.
//
// It does not use the agent's classes: the agent would take its socket for that of another agent.
#include <fmt/core.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/signals.h"
#include "proto/deviceplugin_v1beta1.grpc.pb.h"

namespace tessera {
namespace {

constexpr const char* kDirectory = "/var/lib/kubelet/device-plugins/";

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  return lines;
}

// "<uuid>", "<uuid>::2" or "<uuid>-_-12".
std::string gpu_of(const std::string& id) {
  return id.substr(0, std::min(id.find("::"), id.find("-_-")));
}

class OtherPlugin final : public v1beta1::DevicePlugin::Service {
 public:
  OtherPlugin(std::vector<std::string> ids, std::string env)
      : ids_(std::move(ids)), env_file_(std::move(env)) {}

  void stop() { stopping_ = true; }

  grpc::Status GetDevicePluginOptions(grpc::ServerContext* /*context*/, const v1beta1::Empty* /*request*/,
                                      v1beta1::DevicePluginOptions* /*response*/) override {
    return grpc::Status::OK;
  }

  grpc::Status ListAndWatch(grpc::ServerContext* context, const v1beta1::Empty* /*request*/,
                            grpc::ServerWriter<v1beta1::ListAndWatchResponse>* writer) override {
    v1beta1::ListAndWatchResponse list;
    for (const std::string& id : ids_) {
      v1beta1::Device* device = list.add_devices();
      device->set_id(id);
      device->set_health("Healthy");
    }
    writer->Write(list);
    while (!stopping_ && !context->IsCancelled()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return grpc::Status::OK;
  }

  grpc::Status Allocate(grpc::ServerContext* /*context*/, const v1beta1::AllocateRequest* request,
                        v1beta1::AllocateResponse* response) override {
    for (const auto& container : request->container_requests()) {
      auto& env = *response->add_container_responses()->mutable_envs();
      std::set<std::string> gpus;
      for (const std::string& id : container.devices_ids()) {
        gpus.insert(gpu_of(id));
      }
      std::string& visible = env["NVIDIA_VISIBLE_DEVICES"];
      for (const std::string& gpu : gpus) {
        visible += (visible.empty() ? "" : ",") + gpu;
      }
      for (const std::string& line : lines_of(env_file_)) {
        const std::size_t equals = line.find('=');
        env[line.substr(0, equals)] = line.substr(equals + 1);
      }
      fmt::print("allocate {} ids, sees {}\n", container.devices_ids_size(), visible);
    }
    return grpc::Status::OK;
  }

 private:
  const std::vector<std::string> ids_;
  const std::string env_file_;
  std::atomic<bool> stopping_ = false;
};

grpc::Status register_with_kubelet(const std::string& resource, const std::string& socket) {
  const auto channel = grpc::CreateChannel(std::string("unix:") + kDirectory + "kubelet.sock",
                                           grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  v1beta1::RegisterRequest request;
  request.set_version("v1beta1");
  request.set_endpoint(socket);
  request.set_resource_name(resource);
  v1beta1::Empty response;
  return v1beta1::Registration::NewStub(channel)->Register(&context, request, &response);
}

Status serve(const std::string& resource, const std::string& socket, OtherPlugin& plugin) {
  SignalWatch signals = TRY(SignalWatch::create({SIGTERM, SIGINT}));
  const std::string path = kDirectory + socket;
  ::unlink(path.c_str());
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  builder.RegisterService(&plugin);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) {
    return fail(ErrorCode::kUnavailable, "cannot listen on " + path);
  }
  if (const grpc::Status known = register_with_kubelet(resource, socket); !known.ok()) {
    return fail(ErrorCode::kUnavailable, "kubelet: " + known.error_message());
  }
  fmt::print("registered {}\n", resource);
  pollfd waiting{.fd = signals.fd(), .events = POLLIN, .revents = 0};
  while (!signals.read()) {
    poll(&waiting, 1, -1);
  }
  plugin.stop();
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  return {};
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    fmt::print(stderr, "other_plugin RESOURCE SOCKET IDS-FILE [ENV-FILE]\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  tessera::OtherPlugin plugin(tessera::lines_of(argv[3]), argc == 5 ? argv[4] : "");
  const tessera::Status served = tessera::serve(argv[1], argv[2], plugin);
  if (!served) {
    fmt::print(stderr, "other_plugin: {}\n", served.error().text());
    return 1;
  }
  return 0;
}
