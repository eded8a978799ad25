// The kubelet side of the device-plugin API: accepts registrations on kubelet.sock, connects to the
// plugin before it answers, watches the device list, and calls the plugin. Like kubelet up to 1.36,
// it keeps only the last registered plugin of a resource, and drops it when the stream of any
// plugin of that resource ends.
//
// All functions may be called on any thread. Functions that wait give up after 20 s.
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
  // Removes every socket in the directory and then listens, like kubelet.
  explicit FakeKubelet(std::string directory);
  ~FakeKubelet() override;

  // Rejects the next `times` registrations with the message `reason`.
  void refuse(int times, std::string reason);
  // Returns the number of rejected registrations.
  int refused();

  // Removes the socket of the next plugin that registers, as a starting kubelet may do.
  void remove_socket_at_next_registration();

  // Waits until `good` accepts the list of any resource. Returns that list, or the newest one after
  // a timeout.
  std::vector<Device> wait_for_devices(const std::function<bool(const std::vector<Device>&)>& good);
  // Forgets the lists received so far.
  void forget_lists();
  // Waits until there were `count` registrations. Returns their number.
  int wait_for_registrations(int count);
  // Returns the socket of the current plugin of a resource, or an empty text if it has none.
  std::string served_by(const std::string& resource);
  // Returns the number of open ListAndWatch streams.
  int watching();

  // Ends the stream to the plugin that registered last, without an error.
  void drop();

  // Makes drop() and the calls below use the last registered plugin of this resource.
  void use(const std::string& resource);

  // Call the last registered plugin.
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
  std::string used_;  // the resource of use(); empty for any
  bool remove_socket_ = false;
  int registrations_ = 0;
  int watching_ = 0;
  int refusals_ = 0;
  int refused_ = 0;
  std::string refusal_;
};

}  // namespace tessera::agent
