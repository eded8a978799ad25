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

// The channel must not be destroyed on a gRPC thread. Destroying the last channel or server of a
// process stops gRPC's own threads and waits for them; a thread that waits for itself frees memory
// that it still uses. Each call holds the channel too, so a call is destroyed before it counts as
// ended, and the destructor waits for all calls.
struct KubeletPodResources::Impl {
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
  template <class CallInFlight>
  void end(std::uint64_t number, std::shared_ptr<CallInFlight>& call) {
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

// kubelet sets a status code for few of its errors, so the message text is matched too.
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

// A call in flight. Lives until the answer has arrived.
struct Call {
  grpc::ClientContext context;
  v1::GetPodResourcesRequest request;
  v1::GetPodResourcesResponse response;
};

}  // namespace

KubeletPodResources::KubeletPodResources(std::string socket) : impl_(std::make_unique<Impl>()) {
  // After a restart of kubelet, the next call must not wait for gRPC's default backoff of up to two
  // minutes.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  // A pod with many shares has many IDs.
  arguments.SetMaxReceiveMessageSize(64 << 20);
  impl_->socket = std::move(socket);
  impl_->stub = v1::PodResourcesLister::NewStub(
      grpc::CreateCustomChannel("unix:" + impl_->socket, grpc::InsecureChannelCredentials(), arguments));
}

KubeletPodResources::~KubeletPodResources() {
  impl_->end_all();
}

void KubeletPodResources::get(const PodName& pod, std::chrono::milliseconds deadline,
                              Done<Result<PodDevices>> done) {
  auto call = std::make_shared<Call>();
  Call& made = *call;
  made.context.set_deadline(std::chrono::system_clock::now() + deadline);
  made.request.set_pod_namespace(pod.namespace_name);
  made.request.set_pod_name(pod.name);
  const std::uint64_t number = impl_->begin(made.context);
  impl_->stub->async()->Get(
      &made.context, &made.request, &made.response,
      [impl = impl_.get(), number, call = std::move(call),
       done = std::move(done)](const grpc::Status& status) mutable {
        if (status.ok()) {
          done(read_pod(call->response.pod_resources()));
        } else {
          done(fail(code_of(status), fmt::format("kubelet ({}): {}", impl->socket, status.error_message())));
        }
        impl->end(number, call);
      });
}

}  // namespace tessera::agent
