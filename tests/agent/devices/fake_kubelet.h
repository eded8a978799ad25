// kubelet's side of the device-plugin API: accepts registrations on kubelet.sock, dials back before
// it answers, watches the list, and makes calls. Like kubelet up to 1.36 it keeps only the plugin
// that registered last, and drops that one when the stream of any plugin of the resource ends.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/devices/device.h"
#include "proto/deviceplugin_v1beta1.grpc.pb.h"

namespace tessera::agent {

class FakeKubelet final : public v1beta1::Registration::Service {
 public:
  // Starts like kubelet: removes every socket in the directory, then listens.
  explicit FakeKubelet(std::string directory);
  ~FakeKubelet() override;

  // The next registrations are refused with this text.
  void refuse(int times, std::string why);
  int refused();

  // The next plugin that registers finds its socket gone: kubelet's start removed it just then.
  void remove_socket_at_next_registration();

  // Waits for a list of any resource that is `good`; returns the newest list if none is.
  std::vector<Device> wait_for_devices(const std::function<bool(const std::vector<Device>&)>& good);
  // Forgets the lists received so far.
  void forget_lists();
  // Waits for this many registrations in total.
  int wait_for_registrations(int count);
  // The socket of the current plugin of a resource; empty when there is none.
  std::string served_by(const std::string& resource);
  // The number of plugins it watches now.
  int watching();

  // Ends the stream to the plugin that registered last, without an error.
  void drop();

  // From now on drop() and the calls below are for the plugin that registered this resource last.
  void use(const std::string& resource);

  // Calls to the plugin that registered last.
  grpc::Status prefer(const std::vector<std::string>& available, int size, std::vector<std::string>& answer);
  grpc::Status allocate(const std::vector<std::string>& ids, v1beta1::ContainerAllocateResponse& answer);
  grpc::Status pre_start(const std::vector<std::string>& ids);

  [[nodiscard]] std::string last_endpoint();

 private:
  struct Plugin;

  grpc::Status Register(grpc::ServerContext* context, const v1beta1::RegisterRequest* request,
                        v1beta1::Empty* response) override;
  void watch(const std::shared_ptr<Plugin>& plugin);
  std::shared_ptr<Plugin> last();

  std::string directory_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Plugin>> plugins_;
  std::map<std::string, std::shared_ptr<Plugin>> registered_;  // by resource
  std::vector<std::thread> watchers_;
  std::vector<Device> devices_;
  std::map<std::string, std::vector<Device>> by_resource_;
  std::string used_;  // resource; empty: any
  bool remove_socket_ = false;
  int registrations_ = 0;
  int watching_ = 0;
  int refusals_ = 0;
  int refused_ = 0;
  std::string refusal_;
};

}  // namespace tessera::agent
