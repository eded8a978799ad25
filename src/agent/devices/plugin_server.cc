#include "agent/devices/plugin_server.h"

#include <fmt/core.h>
#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "proto/deviceplugin_v1beta1.grpc.pb.h"

namespace tessera::agent {

namespace {

using Response = v1beta1::ListAndWatchResponse;

constexpr std::string_view kHealthy = "Healthy";
constexpr std::string_view kUnhealthy = "Unhealthy";

std::shared_ptr<const Response> to_message(const std::vector<Device>& devices) {
  auto message = std::make_shared<Response>();
  for (const Device& device : devices) {
    v1beta1::Device* entry = message->add_devices();
    entry->set_id(device.id);
    entry->set_health(std::string(device.healthy ? kHealthy : kUnhealthy));
    for (const std::int64_t node : device.numa) {
      entry->mutable_topology()->add_nodes()->set_id(node);
    }
  }
  return message;
}

// kubelet must always be able to learn that devices are unhealthy, so the size counts the longer
// word "Unhealthy" for every device.
std::size_t bytes_when_unhealthy(const Response& message) {
  using google::protobuf::io::CodedOutputStream;
  std::size_t bytes = 0;
  for (const v1beta1::Device& device : message.devices()) {
    const std::size_t own = device.ByteSizeLong() - device.health().size() + kUnhealthy.size();
    bytes += 1 + CodedOutputStream::VarintSize64(own) + own;  // its tag, its length, itself
  }
  return bytes;
}

Result<std::size_t> check_size(const Response& message) {
  const std::size_t bytes = bytes_when_unhealthy(message);
  if (bytes > PluginServer::kMaxListBytes) {
    return fail(ErrorCode::kExhausted,
                fmt::format("the list of {} devices has {} bytes, and kubelet accepts {}: use a larger unit "
                            "in the whole cluster (--unit 256MiB or GiB; with the chart, unit)",
                            message.devices_size(), bytes, PluginServer::kMaxListBytes));
  }
  return bytes;
}

grpc::Status to_grpc(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kInvalid:
      return {grpc::StatusCode::INVALID_ARGUMENT, error.text()};
    case ErrorCode::kNotFound:
      return {grpc::StatusCode::NOT_FOUND, error.text()};
    case ErrorCode::kExhausted:
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, error.text()};
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimeout:
      return {grpc::StatusCode::FAILED_PRECONDITION, error.text()};
    default:
      return {grpc::StatusCode::INTERNAL, error.text()};
  }
}

void encode(const ContainerResponse& from, v1beta1::ContainerAllocateResponse& response) {
  response.mutable_envs()->insert(from.env.begin(), from.env.end());
  response.mutable_annotations()->insert(from.annotations.begin(), from.annotations.end());
  for (const MountPoint& mount : from.mounts) {
    v1beta1::Mount* entry = response.add_mounts();
    entry->set_container_path(mount.container_path);
    entry->set_host_path(mount.host_path);
    entry->set_read_only(mount.read_only);
  }
  for (const DeviceNode& node : from.nodes) {
    v1beta1::DeviceSpec* entry = response.add_devices();
    entry->set_container_path(node.container_path);
    entry->set_host_path(node.host_path);
    entry->set_permissions(node.permissions);
  }
  for (const std::string& name : from.cdi_devices) {
    response.add_cdi_devices()->set_name(name);
  }
}

template <class Repeated>
std::vector<std::string> to_vector(const Repeated& ids) {
  return {ids.begin(), ids.end()};
}

// A ListAndWatch stream to kubelet. Writes one message at a time, always the newest. Lives until
// gRPC calls OnDone().
class Stream final : public grpc::ServerWriteReactor<Response> {
 public:
  explicit Stream(std::function<void(Stream*)> done) : done_(std::move(done)) {}

  void offer(std::shared_ptr<const Response> message) {
    {
      const std::lock_guard lock(mutex_);
      next_ = std::move(message);
    }
    go_on();
  }

  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      writing_.reset();
      ended_ = ended_ || !ok;
    }
    go_on();
  }
  void OnCancel() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    go_on();
  }
  void OnDone() override {
    // done() destroys this stream.
    const auto done = std::move(done_);
    done(this);
  }

 private:
  // Takes the next step. Calls gRPC outside the lock, because it may call back before it returns.
  // Does nothing while a write is in flight; so Finish() also waits for the write.
  void go_on() {
    std::unique_lock lock(mutex_);
    if (writing_ != nullptr || finished_) {
      return;
    }
    if (ended_) {
      finished_ = true;
      lock.unlock();
      Finish(grpc::Status::OK);
    } else if (next_ != nullptr) {
      writing_ = std::move(next_);
      next_ = nullptr;
      const Response* message = writing_.get();
      lock.unlock();
      StartWrite(message);
    }
  }

  std::function<void(Stream*)> done_;
  std::mutex mutex_;
  std::shared_ptr<const Response> writing_;
  std::shared_ptr<const Response> next_;
  bool ended_ = false;     // kubelet has closed the stream
  bool finished_ = false;  // Finish() was called
};

// Longer than the slowest answer, which includes a request to the API server.
constexpr std::chrono::milliseconds kAnswerTimeout{600};
// Time for gRPC to send an answer.
constexpr std::chrono::milliseconds kSendTime{50};

// Counts the unanswered calls that the admission of a pod waits for. Any thread may call it.
class PendingAnswers {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    --count_;
    last_ = std::chrono::steady_clock::now();
    changed_.notify_all();
  }
  // Waits until all calls are answered. Returns whether the last answer may still be in transit.
  bool wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kAnswerTimeout, [this] { return count_ == 0; });
    return last_ && std::chrono::steady_clock::now() - *last_ < kSendTime;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
  std::optional<std::chrono::steady_clock::time_point> last_;
};

class Service final : public v1beta1::DevicePlugin::CallbackService {
 public:
  Service(KubeletAnswers& answers, PluginServer::Events events, std::shared_ptr<const Response> devices)
      : answers_(&answers), events_(std::move(events)), devices_(std::move(devices)) {}

  void publish(std::shared_ptr<const Response> devices) {
    const std::lock_guard lock(mutex_);
    devices_ = std::move(devices);
    for (const auto& stream : streams_) {
      stream->offer(devices_);
    }
  }

  grpc::ServerUnaryReactor* GetDevicePluginOptions(grpc::CallbackServerContext* context,
                                                   const v1beta1::Empty* /*request*/,
                                                   v1beta1::DevicePluginOptions* response) override {
    response->set_pre_start_required(true);
    response->set_get_preferred_allocation_available(true);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  // Waits until kubelet's calls are answered. Returns whether an answer may still be in transit.
  bool wait_for_answers() { return pending_->wait(); }

  grpc::ServerWriteReactor<Response>* ListAndWatch(grpc::CallbackServerContext* /*context*/,
                                                   const v1beta1::Empty* /*request*/) override {
    Stream* stream = nullptr;
    {
      const std::lock_guard lock(mutex_);
      streams_.push_back(std::make_unique<Stream>([this](Stream* ended) { remove(ended); }));
      stream = streams_.back().get();
      stream->offer(devices_);
    }
    if (events_.stream_opened) {
      events_.stream_opened();
    }
    return stream;
  }

  grpc::ServerUnaryReactor* GetPreferredAllocation(grpc::CallbackServerContext* context,
                                                   const v1beta1::PreferredAllocationRequest* request,
                                                   v1beta1::PreferredAllocationResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    // kubelet always sends one request. It ignores an empty answer, but an error is final for the
    // pod.
    if (request->container_requests_size() != 1) {
      reactor->Finish(grpc::Status::OK);
      return reactor;
    }
    const auto& asked = request->container_requests(0);
    Preference preference{.available = to_vector(asked.available_deviceids()),
                          .must_include = to_vector(asked.must_include_deviceids()),
                          .size = static_cast<std::size_t>(std::max(asked.allocation_size(), 0))};
    pending_->begin();
    answers_->prefer(std::move(preference),
                     [reactor, response, pending = pending_](const std::vector<std::string>& ids) {
                       auto* answer = response->add_container_responses();
                       for (const std::string& id : ids) {
                         answer->add_deviceids(id);
                       }
                       reactor->Finish(grpc::Status::OK);
                       pending->end();
                     });
    return reactor;
  }

  grpc::ServerUnaryReactor* Allocate(grpc::CallbackServerContext* context,
                                     const v1beta1::AllocateRequest* request,
                                     v1beta1::AllocateResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    if (request->container_requests_size() != 1) {
      reactor->Finish({grpc::StatusCode::INVALID_ARGUMENT,
                       fmt::format("Allocate has {} container requests; kubelet must send one",
                                   request->container_requests_size())});
      return reactor;
    }
    pending_->begin();
    answers_->allocate(to_vector(request->container_requests(0).devices_ids()),
                       [reactor, response, pending = pending_](const Result<ContainerResponse>& answer) {
                         if (answer) {
                           encode(*answer, *response->add_container_responses());
                         }
                         reactor->Finish(answer ? grpc::Status::OK : to_grpc(answer.error()));
                         pending->end();
                       });
    return reactor;
  }

  grpc::ServerUnaryReactor* PreStartContainer(grpc::CallbackServerContext* context,
                                              const v1beta1::PreStartContainerRequest* request,
                                              v1beta1::PreStartContainerResponse* /*response*/) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    answers_->pre_start(to_vector(request->devices_ids()), [reactor](const Status& status) {
      reactor->Finish(status ? grpc::Status::OK : to_grpc(status.error()));
    });
    return reactor;
  }

 private:
  void remove(Stream* ended) {
    {
      const std::lock_guard lock(mutex_);
      streams_.remove_if([&](const auto& stream) { return stream.get() == ended; });
    }
    if (events_.stream_ended) {
      events_.stream_ended();
    }
  }

  KubeletAnswers* answers_;
  const PluginServer::Events events_;
  // Shared, because an answer may arrive just after this object is destroyed.
  const std::shared_ptr<PendingAnswers> pending_ = std::make_shared<PendingAnswers>();
  std::mutex mutex_;
  std::shared_ptr<const Response> devices_;
  std::list<std::unique_ptr<Stream>> streams_;
};

class GrpcPluginServer final : public PluginServer {
 public:
  GrpcPluginServer(KubeletAnswers& answers, Events events, std::shared_ptr<const Response> devices)
      : service_(answers, std::move(events), std::move(devices)) {}

  ~GrpcPluginServer() override {
    if (server_ == nullptr) {
      return;
    }
    // Shutdown cancels calls in flight at its deadline, and a cancelled Allocate is final for the
    // pod. Streams never end by themselves, so wait for these calls only.
    const bool in_transit = service_.wait_for_answers();
    server_->Shutdown(std::chrono::system_clock::now() +
                      (in_transit ? kSendTime : std::chrono::milliseconds(0)));
    server_->Wait();
    ::unlink(socket_path_.c_str());
  }

  Status listen(const std::string& socket_path) {
    socket_path_ = socket_path;
    ::unlink(socket_path.c_str());
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket_path, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return fail(
          ErrorCode::kUnavailable,
          fmt::format("cannot listen on {}: check that the directory exists and is writable", socket_path));
    }
    return {};
  }

  Status set_devices(std::vector<Device> devices) override {
    auto message = to_message(devices);
    TRY(check_size(*message));
    service_.publish(std::move(message));
    return {};
  }

 private:
  Service service_;
  std::string socket_path_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

Result<std::unique_ptr<PluginServer>> PluginServer::start(const std::string& socket_path,
                                                          KubeletAnswers& answers,
                                                          const std::vector<Device>& devices, Events events) {
  auto message = to_message(devices);
  TRY(check_size(*message));
  // A Unix socket address has room for 107 bytes. gRPC would fail without saying why.
  constexpr std::size_t kLongestPath = 107;
  if (socket_path.size() > kLongestPath) {
    return fail(ErrorCode::kInvalid, fmt::format("socket path {} is longer than {} bytes; use a shorter "
                                                 "kubelet directory",
                                                 socket_path, kLongestPath));
  }
  auto server = std::make_unique<GrpcPluginServer>(answers, std::move(events), std::move(message));
  TRY(server->listen(socket_path));
  return std::unique_ptr<PluginServer>(std::move(server));
}

Result<std::size_t> check_list_size(const std::vector<Device>& devices) {
  return check_size(*to_message(devices));
}

}  // namespace tessera::agent
