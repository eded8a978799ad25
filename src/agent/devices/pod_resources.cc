#include "agent/devices/pod_resources.h"

#include <fmt/core.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>

#include "proto/podresources_v1.grpc.pb.h"

namespace tessera::agent {

// The channel must not end on a thread of gRPC: the last channel or server of a process ends gRPC's own
// threads and waits for them, and one that waits for itself frees what it still uses. A call holds the
// channel, too, so each is destroyed before it counts as ended, and the channel waits for all of them.
struct PodResources::Core {
  std::string socket;
  std::unique_ptr<v1::PodResourcesLister::Stub> stub;

  std::mutex mutex;
  std::condition_variable ended;
  std::uint64_t next = 0;
  std::map<std::uint64_t, grpc::ClientContext*> cancellable;
  std::size_t running = 0;

  std::uint64_t begin(grpc::ClientContext& context) {
    const std::lock_guard lock(mutex);
    ++running;
    cancellable[++next] = &context;
    return next;
  }
  template <class Call>
  void end(std::uint64_t number, std::shared_ptr<Call>& call) {
    {
      const std::lock_guard lock(mutex);
      cancellable.erase(number);
    }
    call.reset();
    const std::lock_guard lock(mutex);
    --running;
    ended.notify_all();
  }
  void end_all() {
    std::unique_lock lock(mutex);
    for (const auto& [number, context] : cancellable) {
      context->TryCancel();
    }
    ended.wait(lock, [this] { return running == 0; });
  }
};

namespace {

// kubelet has codes for few of its errors, so its words must do.
ErrorCode code_of(const grpc::Status& status) {
  const std::string& text = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return ErrorCode::kTimeout;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return ErrorCode::kExhausted;
    case grpc::StatusCode::NOT_FOUND:
      return ErrorCode::kNotFound;
    case grpc::StatusCode::UNIMPLEMENTED:
      return ErrorCode::kUnsupported;
    case grpc::StatusCode::UNKNOWN:
      if (text.find("not found") != std::string::npos) {
        return ErrorCode::kNotFound;
      }
      return text.find("disabled") != std::string::npos ? ErrorCode::kUnsupported : ErrorCode::kUnavailable;
    default:
      return ErrorCode::kUnavailable;
  }
}

PodDevices read_pod(const v1::PodResources& message) {
  PodDevices pod;
  pod.pod = {.namespace_name = message.namespace_(), .name = message.name()};
  for (const v1::ContainerResources& container : message.containers()) {
    auto& resources = pod.containers[container.name()];
    for (const v1::ContainerDevices& devices : container.devices()) {
      auto& ids = resources[devices.resource_name()];
      ids.insert(ids.end(), devices.device_ids().begin(), devices.device_ids().end());
    }
    for (auto& [resource, ids] : resources) {
      std::ranges::sort(ids);
    }
  }
  return pod;
}

// A call on its way: alive until its answer has come.
template <class Request, class Response>
struct Call {
  grpc::ClientContext context;
  Request request;
  Response response;
};

template <class Response, class T, class Read>
void answer(const grpc::Status& status, const std::string& socket, const Response& response,
            const std::function<void(Result<T>)>& done, Read read) {
  if (status.ok()) {
    done(read(response));
  } else {
    done(fail(code_of(status), fmt::format("kubelet ({}): {}", socket, status.error_message())));
  }
}

}  // namespace

PodResources::PodResources(std::string socket) : core_(std::make_unique<Core>()) {
  // After a restart of kubelet the next call must not wait out gRPC's usual backoff of up to two minutes.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  // A node with many shares has a long list.
  arguments.SetMaxReceiveMessageSize(64 << 20);
  core_->socket = std::move(socket);
  core_->stub = v1::PodResourcesLister::NewStub(
      grpc::CreateCustomChannel("unix:" + core_->socket, grpc::InsecureChannelCredentials(), arguments));
}

PodResources::~PodResources() {
  core_->end_all();
}

void PodResources::get(const PodName& pod, Milliseconds deadline, Done<PodDevices> done) {
  using GetCall = Call<v1::GetPodResourcesRequest, v1::GetPodResourcesResponse>;
  auto call = std::make_shared<GetCall>();
  GetCall& made = *call;
  made.context.set_deadline(std::chrono::system_clock::now() + deadline);
  made.request.set_pod_namespace(pod.namespace_name);
  made.request.set_pod_name(pod.name);
  const std::uint64_t number = core_->begin(made.context);
  core_->stub->async()->Get(&made.context, &made.request, &made.response,
                            [core = core_.get(), number, call = std::move(call),
                             done = std::move(done)](const grpc::Status& status) mutable {
                              answer<v1::GetPodResourcesResponse, PodDevices>(
                                  status, core->socket, call->response, done,
                                  [](const auto& response) { return read_pod(response.pod_resources()); });
                              core->end(number, call);
                            });
}

void PodResources::list(Milliseconds deadline, Done<std::vector<PodDevices>> done) {
  using ListCall = Call<v1::ListPodResourcesRequest, v1::ListPodResourcesResponse>;
  auto call = std::make_shared<ListCall>();
  ListCall& made = *call;
  made.context.set_deadline(std::chrono::system_clock::now() + deadline);
  const std::uint64_t number = core_->begin(made.context);
  core_->stub->async()->List(&made.context, &made.request, &made.response,
                             [core = core_.get(), number, call = std::move(call),
                              done = std::move(done)](const grpc::Status& status) mutable {
                               answer<v1::ListPodResourcesResponse, std::vector<PodDevices>>(
                                   status, core->socket, call->response, done, [](const auto& response) {
                                     std::vector<PodDevices> pods;
                                     for (const auto& pod : response.pod_resources()) {
                                       pods.push_back(read_pod(pod));
                                     }
                                     return pods;
                                   });
                               core->end(number, call);
                             });
}

}  // namespace tessera::agent
