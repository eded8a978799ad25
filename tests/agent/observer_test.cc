#include "agent/observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "../base/temporary_directory.h"
#include "agent/measured_kind.h"
#include "base/file.h"
#include "fake_cluster.h"
#include "gpu_node.h"
#include "http/client.h"

namespace tessera::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::uint64_t kGib = 1U << 30U;
const std::string kUid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
const std::string kId(64, 'c');

// One pod with 3 GiB of GPU 0, whose process 4711 uses 4.
class ObserverTest : public ::testing::Test {
 protected:
  ObserverTest() {
    std::filesystem::create_directory(proc_ / "4711");
    EXPECT_TRUE(write_file(proc_ / "4711/cgroup", "0::/kubepods/pod" + kUid + "/" + kId + "\n"));
    auto state = std::make_shared<gpu::DriverState>();
    state->ready = true;
    state->inventory = v100s(1);
    state_ = state;
    pod_.pod_namespace = "ml";
    pod_.name = "train-7";
    pod_.uid = kUid;
    pod_.containers.resize(2);
    pod_.containers[0].name = "main";
    pod_.containers[0].id = kId;
    pod_.containers[1].name = "side";
    given_ = {{.pod = {"ml", "train-7"},
               .pod_uid = kUid,
               .container = "main",
               .grants = {{.gpu = "GPU-0", .units = 3}},
               .ids = {{"aliyun.com/gpu-mem", {"0-0", "0-1", "0-2"}}}}};
    auto server = http::Server::create(
        cluster_.loop(), {},
        [this](http::Request& request, http::Reply reply) { observer_.handle(request, std::move(reply)); });
    EXPECT_TRUE(server);
    server_.emplace(*std::move(server));
  }

  void sample() {
    observer_.start([](auto done) {
      gpu::GpuUsage usage{.memory = {.total = 32 * kGib, .reserved = 0, .used = 4 * kGib},
                          .busy_percent = 40};
      done({{.uuid = "GPU-0",
             .usage = usage,
             .processes = std::vector<gpu::GpuProcess>{{4711, 4 * kGib, 40}}}});
    });
    cluster_.run_until([&] { return !events_.empty(); });
  }
  http::ClientResponse get(const std::string& path, const std::string& method = "GET") {
    auto client =
        http::Client::create(cluster_.loop(), {.url = fmt::format("http://127.0.0.1:{}", server_->port())});
    EXPECT_TRUE(client) << client.error().text();
    auto answer = client->fetch({.method = method, .target = path});
    EXPECT_TRUE(answer) << answer.error().text();
    return *std::move(answer);
  }

  FakeCluster cluster_;
  kube::Client client_ = cluster_.client();
  TemporaryDirectory proc_;
  std::shared_ptr<const gpu::DriverState> state_;
  alloc::PodSpec pod_;
  std::vector<Allocation> given_;
  std::string missing_;
  std::vector<std::string> events_;
  Observer observer_{
      cluster_.loop(),
      client_,
      {.node = "gpu-a", .sampler = {.every = 10s, .proc_root = proc_.path()}},
      [this](const kube::EventNote& note) { events_.push_back(note.reason + " " + note.message); },
      {.not_ready = [this] { return missing_; },
       .state = [this] { return state_; },
       .allocations = [this] { return given_; },
       .pods = [this] { return std::vector<const alloc::PodSpec*>{&pod_}; },
       .more = [](std::optional<std::chrono::nanoseconds> age,
                  Readings& readings) { readings.gauge("sampled", "x", age ? 1 : 0); }}};
  std::optional<http::Server> server_;
};

TEST_F(ObserverTest, SeesThroughProcessAndCgroupWhichContainerTakesMoreThanItsShare) {
  sample();
  EXPECT_THAT(events_, ElementsAre(AllOf(StartsWith("GpuMemoryExceeded container main uses 4.0GiB of GPU 0"),
                                         HasSubstr("asked for 3.0GiB"))));
  const std::string labels = R"({namespace="ml",pod="train-7",container="main",gpu="0",uuid="GPU-0"} )";
  const std::string text = observer_.metrics_text();
  EXPECT_THAT(text, HasSubstr("tessera_container_gpu_memory_used_bytes" + labels + "4294967296\n"));
  EXPECT_THAT(text, HasSubstr("tessera_container_gpu_memory_exceeded" + labels + "1\n"));
  EXPECT_THAT(text, HasSubstr("tessera_container_gpu_utilization_ratio" + labels + "0.4\n"));
  EXPECT_THAT(text, HasSubstr("\nsampled 1\n"));
}

TEST_F(ObserverTest, AnswersBeforeTheDriverHasSaidAnything) {
  state_ = nullptr;
  EXPECT_THAT(observer_.metrics_text(), HasSubstr("\nsampled 0\n"));
  EXPECT_THAT(observer_.allocations_text(), HasSubstr(R"("pod":"train-7")"));
}

TEST_F(ObserverTest, ServesProbesMetricsAndAllocations) {
  EXPECT_EQ(get("/healthz").status, 200);
  EXPECT_EQ(get("/readyz").status, 200);
  missing_ = "kubelet does not know aliyun.com/gpu yet";
  EXPECT_EQ(get("/readyz").status, 503);
  EXPECT_THAT(get("/readyz").body.text(), HasSubstr("aliyun.com/gpu yet"));
  EXPECT_THAT(get("/metrics").body.text(), HasSubstr("tessera_gpu_healthy"));
  EXPECT_THAT(get("/allocations").body.text(),
              HasSubstr(R"("ids":{"aliyun.com/gpu-mem":["0-0","0-1","0-2"]})"));
  EXPECT_EQ(get("/version").status, 200);
  EXPECT_EQ(get("/nothing").status, 404);
  EXPECT_EQ(get("/metrics", "POST").status, 405);
}

class Slow final : public DeviceKind {
 public:
  void prefer(Preference preference, std::function<void(std::vector<std::string>)> done) override {
    done(std::move(preference.available));
  }
  void allocate(std::vector<std::string> /*ids*/, std::function<void(Result<Grant>)> done) override {
    done(fail(ErrorCode::kExhausted, "no"));
  }
  void pre_start(std::vector<std::string> /*ids*/, std::function<void(Status)> done) override {
    later = std::move(done);
  }
  std::function<void(Status)> later;
};

TEST(MeasuredKind, CountsAnAnswerWhenItIsGivenAndPassesItOn) {
  Slow slow;
  std::vector<std::string> calls;
  MeasuredKind kind(slow, [&](std::string_view call, bool well, std::chrono::nanoseconds took) {
    EXPECT_GE(took, 0ns);
    calls.push_back(std::string(call) + (well ? " ok" : " error"));
  });
  std::vector<std::string> preferred;
  kind.prefer({.available = {"a"}, .must_include = {}, .size = 1}, [&](auto ids) { preferred = ids; });
  kind.allocate({"a"}, [&](const Result<Grant>& grant) { EXPECT_FALSE(grant); });
  bool started = false;
  kind.pre_start({"a"}, [&](const Status& status) { started = status.has_value(); });
  EXPECT_THAT(preferred, ElementsAre("a"));
  EXPECT_THAT(calls, ElementsAre("prefer ok", "allocate error"));
  slow.later({});
  EXPECT_TRUE(started);
  EXPECT_EQ(calls.back(), "pre_start ok");
}

}  // namespace
}  // namespace tessera::agent
