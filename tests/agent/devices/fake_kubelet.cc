#include "fake_kubelet.h"

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace tessera::agent {

namespace {
constexpr auto kTimeout = std::chrono::seconds(20);
}  // namespace

struct FakeKubelet::Plugin {
  std::string endpoint;
  std::string resource;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1beta1::DevicePlugin::Stub> stub;
  grpc::ClientContext stream;
};

FakeKubelet::FakeKubelet(std::string directory) : directory_(std::move(directory)) {
  std::filesystem::create_directories(directory_);
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    if (entry.is_socket()) {
      std::filesystem::remove(entry.path());
    }
  }
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + directory_ + "/kubelet.sock", grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    throw std::runtime_error("the fake kubelet cannot listen in " + directory_);
  }
}

FakeKubelet::~FakeKubelet() {
  server_->Shutdown(std::chrono::system_clock::now());
  std::vector<std::thread> watchers;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& plugin : plugins_) {
      plugin->stream.TryCancel();
    }
    watchers = std::move(watchers_);
  }
  for (std::thread& watcher : watchers) {
    watcher.join();
  }
}

void FakeKubelet::remove_socket_at_next_registration() {
  const std::lock_guard lock(mutex_);
  remove_socket_ = true;
}

void FakeKubelet::refuse(int times, std::string reason) {
  const std::lock_guard lock(mutex_);
  refusals_ = times;
  refusal_ = std::move(reason);
}

int FakeKubelet::refused() {
  const std::lock_guard lock(mutex_);
  return refused_;
}

grpc::Status FakeKubelet::Register(grpc::ServerContext* /*context*/, const v1beta1::RegisterRequest* request,
                                   v1beta1::Empty* /*response*/) {
  {
    const std::lock_guard lock(mutex_);
    if (refusals_ > 0) {
      --refusals_;
      ++refused_;
      return {grpc::StatusCode::UNKNOWN, refusal_};
    }
    if (std::exchange(remove_socket_, false)) {
      std::filesystem::remove(directory_ + "/" + request->endpoint());
    }
  }
  auto plugin = std::make_shared<Plugin>();
  plugin->endpoint = request->endpoint();
  plugin->resource = request->resource_name();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  plugin->channel = grpc::CreateCustomChannel("unix:" + directory_ + "/" + request->endpoint(),
                                              grpc::InsecureChannelCredentials(), arguments);
  plugin->stub = v1beta1::DevicePlugin::NewStub(plugin->channel);
  // The real kubelet also calls the plugin before it answers Register.
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  v1beta1::DevicePluginOptions options;
  context.set_wait_for_ready(true);  // kubelet dials for up to 10 s
  const grpc::Status status = plugin->stub->GetDevicePluginOptions(&context, {}, &options);
  if (!status.ok() || !options.pre_start_required() || !options.get_preferred_allocation_available()) {
    return {grpc::StatusCode::UNKNOWN, "cannot ask the plugin for its options: " + status.error_message()};
  }
  const std::lock_guard lock(mutex_);
  ++registrations_;
  by_resource_.erase(plugin->resource);  // until the new plugin sends its list
  plugins_.push_back(plugin);
  registered_[plugin->resource] = plugin;
  watchers_.emplace_back([this, plugin] { watch(plugin); });
  changed_.notify_all();
  return grpc::Status::OK;
}

void FakeKubelet::watch(const std::shared_ptr<Plugin>& plugin) {
  const auto reader = plugin->stub->ListAndWatch(&plugin->stream, {});
  {
    const std::lock_guard lock(mutex_);
    ++watching_;
  }
  v1beta1::ListAndWatchResponse list;
  while (reader->Read(&list)) {
    std::vector<Device> devices;
    for (const auto& entry : list.devices()) {
      Device device{.id = entry.id(), .healthy = entry.health() == "Healthy"};
      for (const auto& node : entry.topology().nodes()) {
        device.numa.push_back(node.id());
      }
      devices.push_back(std::move(device));
    }
    const std::lock_guard lock(mutex_);
    devices_ = devices;
    by_resource_[plugin->resource] = std::move(devices);
    changed_.notify_all();
  }
  (void)reader->Finish();
  const std::lock_guard lock(mutex_);
  --watching_;
  if (const auto found = registered_.find(plugin->resource); found != registered_.end()) {
    found->second->stream.TryCancel();
    registered_.erase(found);
  }
  changed_.notify_all();
}

std::vector<Device> FakeKubelet::wait_for_devices(
    const std::function<bool(const std::vector<Device>&)>& good) {
  std::unique_lock lock(mutex_);
  const std::vector<Device>* found = nullptr;
  changed_.wait_for(lock, kTimeout, [&] {
    for (const auto& [resource, devices] : by_resource_) {
      found = good(devices) ? &devices : found;
    }
    return found != nullptr;
  });
  return found == nullptr ? devices_ : *found;
}

void FakeKubelet::forget_lists() {
  const std::lock_guard lock(mutex_);
  by_resource_.clear();
  devices_.clear();
}

int FakeKubelet::wait_for_registrations(int count) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kTimeout, [&] { return registrations_ >= count; });
  return registrations_;
}

std::string FakeKubelet::served_by(const std::string& resource) {
  const std::lock_guard lock(mutex_);
  const auto found = registered_.find(resource);
  return found == registered_.end() ? "" : found->second->endpoint;
}

int FakeKubelet::watching() {
  const std::lock_guard lock(mutex_);
  return watching_;
}

std::shared_ptr<FakeKubelet::Plugin> FakeKubelet::last() {
  const std::lock_guard lock(mutex_);
  for (auto plugin = plugins_.rbegin(); plugin != plugins_.rend(); ++plugin) {
    if (used_.empty() || (*plugin)->resource == used_) {
      return *plugin;
    }
  }
  throw std::logic_error("no plugin has registered " + used_);
}

void FakeKubelet::use(const std::string& resource) {
  const std::lock_guard lock(mutex_);
  used_ = resource;
}

std::string FakeKubelet::last_endpoint() {
  return last()->endpoint;
}

void FakeKubelet::drop() {
  last()->stream.TryCancel();
}

grpc::Status FakeKubelet::prefer(const std::vector<std::string>& available, int size,
                                 std::vector<std::string>& answer) {
  grpc::ClientContext context;
  v1beta1::PreferredAllocationRequest request;
  auto* container = request.add_container_requests();
  for (const std::string& id : available) {
    container->add_available_deviceids(id);
  }
  container->set_allocation_size(size);
  v1beta1::PreferredAllocationResponse response;
  const grpc::Status status = last()->stub->GetPreferredAllocation(&context, request, &response);
  if (status.ok() && response.container_responses_size() == 1) {
    const auto& ids = response.container_responses(0).deviceids();
    answer.assign(ids.begin(), ids.end());
  }
  return status;
}

grpc::Status FakeKubelet::allocate(const std::vector<std::string>& ids,
                                   v1beta1::ContainerAllocateResponse& answer) {
  grpc::ClientContext context;
  v1beta1::AllocateRequest request;
  auto* container = request.add_container_requests();
  for (const std::string& id : ids) {
    container->add_devices_ids(id);
  }
  v1beta1::AllocateResponse response;
  const grpc::Status status = last()->stub->Allocate(&context, request, &response);
  if (status.ok() && response.container_responses_size() == 1) {
    answer = response.container_responses(0);
  }
  return status;
}

grpc::Status FakeKubelet::pre_start(const std::vector<std::string>& ids) {
  grpc::ClientContext context;
  v1beta1::PreStartContainerRequest request;
  for (const std::string& id : ids) {
    request.add_devices_ids(id);
  }
  v1beta1::PreStartContainerResponse response;
  return last()->stub->PreStartContainer(&context, request, &response);
}

}  // namespace tessera::agent
