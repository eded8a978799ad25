#include "agent/devices/pod_resources.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "../../base/temporary_directory.h"
#include "proto/podresources_v1.grpc.pb.h"

namespace tessera::agent {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kPatience = 20s;

// Answers like kubelet: one entry per ID, and errors as text.
class Lister final : public v1::PodResourcesLister::Service {
 public:
  explicit Lister(const std::string& socket) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Lister() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Get(grpc::ServerContext* /*context*/, const v1::GetPodResourcesRequest* request,
                   v1::GetPodResourcesResponse* response) override {
    if (request->pod_name() == "old-kubelet") {
      return {grpc::StatusCode::UNKNOWN, "PodResources API Get method disabled"};
    }
    if (request->pod_name() != "train") {
      return {grpc::StatusCode::UNKNOWN, "pod " + request->pod_name() + " in namespace ml not found"};
    }
    fill(*response->mutable_pod_resources());
    return grpc::Status::OK;
  }

 private:
  static void fill(v1::PodResources& pod) {
    pod.set_name("train");
    pod.set_namespace_("ml");
    auto* worker = pod.add_containers();
    worker->set_name("worker");
    for (const char* id : {"1-9", "1-10", "1-8"}) {
      auto* devices = worker->add_devices();
      devices->set_resource_name("aliyun.com/gpu-mem");
      devices->add_device_ids(id);
    }
    pod.add_containers()->set_name("sidecar");
  }

  std::unique_ptr<grpc::Server> server_;
};

Result<PodDevices> get(PodResources& resources, const std::string& name) {
  auto promise = std::make_shared<std::promise<Result<PodDevices>>>();
  resources.get({"ml", name}, kPatience,
                [promise](Result<PodDevices> pod) { promise->set_value(std::move(pod)); });
  return promise->get_future().get();
}

class PodResourcesTest : public testing::Test {
 protected:
  TemporaryDirectory directory;
  std::string socket = directory / "kubelet.sock";
};

TEST_F(PodResourcesTest, ReturnsTheIdsOfAContainer) {
  const Lister kubelet(socket);
  KubeletPodResources resources(socket);
  const auto pod = get(resources, "train");
  ASSERT_TRUE(pod) << pod.error().text();
  EXPECT_EQ(pod->pod, (PodName{"ml", "train"}));
  EXPECT_THAT(pod->containers.at("worker").at("aliyun.com/gpu-mem"), ElementsAre("1-10", "1-8", "1-9"));
  EXPECT_TRUE(pod->containers.at("sidecar").empty());
}

TEST_F(PodResourcesTest, DistinguishesWhyThereIsNoAnswer) {
  KubeletPodResources resources(socket);
  EXPECT_EQ(get(resources, "train").error().code(), ErrorCode::kUnavailable);
  const Lister kubelet(socket);
  // The channel reconnects soon after kubelet has started.
  auto pod = get(resources, "train");
  const auto begun = std::chrono::steady_clock::now();
  while (!pod && std::chrono::steady_clock::now() - begun < kPatience) {
    pod = get(resources, "train");
  }
  EXPECT_TRUE(pod);
  EXPECT_EQ(get(resources, "queued").error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(get(resources, "queued").error().text(), HasSubstr("queued"));
  EXPECT_EQ(get(resources, "old-kubelet").error().code(), ErrorCode::kUnsupported);
}

// If the channel is destroyed on a gRPC thread, that thread waits for itself. AddressSanitizer then
// reported a queue that was freed twice, and the program sometimes did not end.
TEST_F(PodResourcesTest, CanBeDestroyedWhileAnAnswerArrives) {
  const Lister kubelet(socket);
  for (int i = 0; i < 100; ++i) {
    std::atomic<int> came = 0;
    auto resources = std::make_unique<KubeletPodResources>(socket);
    resources->get({"ml", "train"}, kPatience, [&](const Result<PodDevices>&) { ++came; });
    if (i % 2 == 0) {
      while (came == 0) {
        std::this_thread::yield();
      }
    }
    resources.reset();
    EXPECT_EQ(came, 1);
  }
}

}  // namespace
}  // namespace tessera::agent
