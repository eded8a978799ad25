#include "agent/devices/registrar.h"

#include <fmt/core.h>
#include <grpcpp/grpcpp.h>

#include <future>
#include <memory>
#include <mutex>

#include "proto/deviceplugin_v1beta1.grpc.pb.h"

namespace tessera::agent {

namespace {

constexpr std::chrono::milliseconds kPollEvery{50};

}  // namespace

struct Registrar::Impl {
  std::string socket;
  std::mutex mutex;
  grpc::ClientContext* running = nullptr;
  bool stopped = false;
};

Registrar::Registrar(std::string kubelet_socket) : impl_(std::make_unique<Impl>()) {
  impl_->socket = std::move(kubelet_socket);
}

Registrar::~Registrar() = default;

Status Registrar::register_plugin(const std::string& endpoint, const std::string& resource,
                                  std::chrono::milliseconds deadline,
                                  const std::function<bool()>& socket_exists) {
  // Each attempt has its own channel. A shared one would wait for the backoff of the last attempt.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel =
      grpc::CreateCustomChannel("unix:" + impl_->socket, grpc::InsecureChannelCredentials(), arguments);
  const auto stub = v1beta1::Registration::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopped) {
      return fail(ErrorCode::kCancelled, "registration with kubelet was cancelled");
    }
    impl_->running = &context;
  }
  v1beta1::RegisterRequest request;
  request.set_version("v1beta1");
  request.set_endpoint(endpoint);
  request.set_resource_name(resource);
  request.mutable_options()->set_pre_start_required(true);
  request.mutable_options()->set_get_preferred_allocation_available(true);
  v1beta1::Empty response;
  // Shared, because set_value() may still be running when get() returns.
  const auto answered = std::make_shared<std::promise<grpc::Status>>();
  std::future<grpc::Status> answer = answered->get_future();
  stub->async()->Register(&context, &request, &response,
                          [answered](const grpc::Status& status) { answered->set_value(status); });
  bool removed = false;
  while (answer.wait_for(kPollEvery) != std::future_status::ready) {
    if (!removed && !socket_exists()) {
      removed = true;
      context.TryCancel();
    }
  }
  const grpc::Status status = answer.get();
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->running = nullptr;
    if (impl_->stopped) {
      return fail(ErrorCode::kCancelled, "registration with kubelet was cancelled");
    }
  }
  if (removed && !status.ok()) {
    return fail(ErrorCode::kUnavailable, fmt::format("kubelet has removed the plugin's socket {}", endpoint));
  }
  if (!status.ok()) {
    return fail(ErrorCode::kUnavailable, fmt::format("kubelet ({}) rejected the registration of {}: {}",
                                                     impl_->socket, resource, status.error_message()));
  }
  return {};
}

void Registrar::stop() {
  const std::lock_guard lock(impl_->mutex);
  impl_->stopped = true;
  if (impl_->running != nullptr) {
    impl_->running->TryCancel();
  }
}

}  // namespace tessera::agent
