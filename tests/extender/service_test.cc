#include "extender/service.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "../alloc/cluster.h"
#include "collected_events.h"
#include "http/client.h"
#include "http/server.h"

namespace tessera::extender {
namespace {

using ::testing::HasSubstr;

class AlwaysPermitted final : public BindPermission {
 public:
  std::chrono::milliseconds time_left() override { return std::chrono::milliseconds(200); }
  [[nodiscard]] bool starts_soon() const override { return false; }
};

// The routes behind a real HTTP server. There is no API server.
class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() {
    state_.keep_node(alloc::testing::node_of("gpu-a", {32, 32}));
    state_.keep_pod(alloc::testing::bound_share("one", 8, "gpu-a", 1));
    kube::ClusterAccess access;
    access.cluster.server = "http://127.0.0.1:1";
    client_.emplace(kube::Client::create(loop_, access, {}).value());
    context_.emplace(Context{.client = *client_, .state = state_, .events = events_, .metrics = metrics_});
    binder_.emplace(*context_, permission_, BinderOptions{.timeout = std::chrono::milliseconds(200)});
    service_.emplace(
        *context_, *binder_,
        Service::Sources{.not_ready = [this] { return not_ready_; },
                         .readings = [] { return std::vector<daemon::Reading>(); },
                         .after =
                             [this](std::chrono::milliseconds delay, std::function<void()> task) {
                               ++retries_;
                               if (meanwhile_) {
                                 meanwhile_();
                               }
                               return loop_.after(delay, std::move(task));
                             }});
    server_.emplace(http::Server::create(
                        loop_,
                        {.on_access = [this](const http::Access& answered) { metrics_.count(answered); }},
                        [this](http::Request& request, http::Reply reply) {
                          service_->handle(request, std::move(reply));
                        })
                        .value());
    caller_.emplace(
        http::Client::create(loop_, {.url = fmt::format("http://127.0.0.1:{}", server_->port())}).value());
  }

  http::ClientResponse call(const std::string& method, const std::string& target,
                            const std::string& body = "") {
    Result<http::ClientResponse> response =
        caller_->fetch({.method = method, .target = target, .body = body});
    EXPECT_TRUE(response) << response.error().text();
    return *std::move(response);
  }
  boost::json::value json(const std::string& method, const std::string& target,
                          const std::string& body = "") {
    return boost::json::parse(call(method, target, body).body.text());
  }

  static std::string filter_body(int units) {
    return fmt::format(
        R"({{"Pod":{{"metadata":{{"name":"p","namespace":"ml","uid":"u"}},"spec":{{"containers":[{{"name":"m","resources":{{"limits":{{"aliyun.com/gpu-mem":"{}"}}}}}}]}}}},"NodeNames":["gpu-a"]}})",
        units);
  }

  http::EventLoop loop_;
  ClusterState state_{{}};
  Metrics metrics_;
  std::string not_ready_;
  CollectedEvents events_;
  AlwaysPermitted permission_;
  int retries_ = 0;
  std::function<void()> meanwhile_;  // runs before filter tries again
  std::optional<kube::Client> client_;
  std::optional<Context> context_;
  std::optional<Binder> binder_;
  std::optional<Service> service_;
  std::optional<http::Server> server_;
  std::optional<http::Client> caller_;
};

TEST_F(ServiceTest, ServesVerbsUnderAllThreePrefixes) {
  for (const char* prefix : {"/gpushare-scheduler", "/gputopology-scheduler", "/gpu-scheduler-extender"}) {
    EXPECT_EQ(json("POST", std::string(prefix) + "/filter", filter_body(8)).at("NodeNames").as_array().size(),
              1U)
        << prefix;
    EXPECT_EQ(
        json("POST", std::string(prefix) + "/filter/best", filter_body(8)).at("NodeNames").as_array().size(),
        1U)
        << prefix;
    // Defect T1 of the original topology scheduler: a missing slash made prioritize unreachable.
    EXPECT_EQ(json("POST", std::string(prefix) + "/sort", filter_body(8)).as_array().size(), 1U) << prefix;
    EXPECT_EQ(json("POST", std::string(prefix) + "/prioritize", filter_body(8)).as_array().size(), 1U)
        << prefix;
  }
}

// kube-scheduler retries a pod as soon as it sees another one end. The watch of the extender may
// show that a moment later.
TEST_F(ServiceTest, FilterTriesAgainBeforeItRejectsAllNodes) {
  const alloc::PodSpec big = alloc::testing::bound_share("big", 32, "gpu-a", 0);
  state_.keep_pod(big);
  meanwhile_ = [&] { state_.forget_pod(big.uid); };
  const boost::json::value answer = json("POST", "/gpushare-scheduler/filter", filter_body(30));
  EXPECT_EQ(answer.at("NodeNames").as_array().size(), 1U);
  EXPECT_EQ(retries_, 1);
  EXPECT_THAT(std::string(call("GET", "/metrics").body.text()),
              HasSubstr("tessera_extender_filter_retries_total 1\n"));
  EXPECT_TRUE(events_.notes.empty());
}

TEST_F(ServiceTest, CountsPodsThatItRefusesAndNamesTheLimit) {
  std::string body = filter_body(8);
  body.insert(body.find("\"name\":\"p\""),
              fmt::format(R"("annotations":{{"tessera.io/gpu-uuids":"{}"}},)", std::string(5'000, 'x')));
  const boost::json::value answer = json("POST", "/gpushare-scheduler/filter", body);
  EXPECT_EQ(answer.at("FailedAndUnresolvableNodes").at("gpu-a").as_string(),
            "annotation tessera.io/gpu-uuids has 5000 bytes; at most 4096 are allowed");
  const std::string metrics(call("GET", "/metrics").body.text());
  EXPECT_THAT(metrics, HasSubstr("tessera_extender_refused_pods_total 1\n"));
  EXPECT_THAT(metrics, HasSubstr("tessera_extender_ended_searches_total 0\n"));
  EXPECT_THAT(events_.notes.at(0).message, HasSubstr("at most 4096 are allowed"));
}

// kube-scheduler may see a new node, a new inventory or recovered GPUs before the extender does.
TEST_F(ServiceTest, FilterTriesAgainForNodesThatMayFitSoon) {
  const alloc::NodeSpec good = alloc::testing::node_of("gpu-a", {32, 32});
  alloc::Inventory unhealthy = alloc::testing::inventory_of("gpu-a", {32, 32});
  unhealthy.gpus[0].unhealthy = unhealthy.gpus[1].unhealthy = "XID 79";
  alloc::NodeSpec broken = good;
  broken.inventory = "{";
  alloc::NodeSpec bare = good;
  bare.inventory = "";
  alloc::Inventory shared = alloc::testing::inventory_of("gpu-a", {32, 32});
  shared.also_served_as = {"example.com/gpu"};
  alloc::Inventory finer = alloc::testing::inventory_of("gpu-a", {32, 32});
  finer.unit = *alloc::Unit::parse("MiB");
  const std::vector<std::pair<const char*, std::function<void()>>> moments{
      {"not known yet", [&] { state_.forget_node("gpu-a"); }},
      {"without an inventory", [&] { state_.keep_node(bare); }},
      {"with a truncated inventory", [&] { state_.keep_node(broken); }},
      {"while another plugin is being removed",
       [&] { state_.keep_node(alloc::testing::node_with("gpu-a", shared)); }},
      {"with another unit than the cluster",
       [&] { state_.keep_node(alloc::testing::node_with("gpu-a", finer)); }},
      {"unhealthy", [&] { state_.keep_node(alloc::testing::node_with("gpu-a", unhealthy)); }}};
  meanwhile_ = [&] { state_.keep_node(good); };
  for (const auto& [what, happen] : moments) {
    happen();
    const int before = retries_;
    EXPECT_EQ(json("POST", "/gpushare-scheduler/filter", filter_body(8)).at("NodeNames").as_array().size(),
              1U)
        << what;
    EXPECT_EQ(retries_, before + 1) << what;
    loop_.run_until([] { return false; }, Service::kRetryInterval);
  }
  EXPECT_TRUE(events_.notes.empty());
}

TEST_F(ServiceTest, FilterTriesAgainOnlyIfThatCanHelpAndNotTooOften) {
  // No GPU is that large.
  EXPECT_EQ(json("POST", "/gpushare-scheduler/filter", filter_body(40)).at("NodeNames").as_array().size(),
            0U);
  EXPECT_EQ(retries_, 0);
  state_.keep_pod(alloc::testing::bound_share("big", 32, "gpu-a", 0));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(json("POST", "/gpushare-scheduler/filter", filter_body(30)).at("NodeNames").as_array().size(),
              0U);
  }
  EXPECT_EQ(retries_, 1);
}

// kube-scheduler drops the body of any status other than 200.
TEST_F(ServiceTest, AnswersInvalidBodiesWith200AndAnError) {
  for (const char* verb : {"filter", "bind"}) {
    const http::ClientResponse response =
        call("POST", std::string("/gpushare-scheduler/") + verb, "nonsense");
    EXPECT_EQ(response.status, 200) << verb;
    EXPECT_NE(boost::json::parse(response.body.text()).at("Error").as_string(), "") << verb;
  }
  EXPECT_EQ(call("POST", "/gpushare-scheduler/prioritize", "nonsense").body.text(), "[]");
  EXPECT_EQ(call("POST", "/gpushare-scheduler/preempt", "").body.text(), R"({"NodeNameToMetaVictims":{}})");
  EXPECT_THAT(std::string(call("GET", "/metrics").body.text()),
              HasSubstr("tessera_extender_invalid_requests_total 4"));
}

TEST_F(ServiceTest, AnswersBindFailuresWith200AndAnError) {
  const http::ClientResponse response =
      call("POST", "/gpushare-scheduler/bind",
           R"({"PodName":"p","PodNamespace":"ml","PodUID":"u","Node":"gpu-a"})");
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(std::string(response.body.text()), HasSubstr("pod ml/p: bind to node gpu-a"));
}

TEST_F(ServiceTest, DecidesNothingBeforeNodesAndPodsAreListed) {
  not_ready_ = "pods are still being listed";
  EXPECT_EQ(call("GET", "/readyz").status, 503);
  EXPECT_EQ(call("GET", "/healthz").status, 200);
  for (const char* verb : {"filter", "bind"}) {
    EXPECT_THAT(
        std::string(
            json("POST", std::string("/gpushare-scheduler/") + verb, filter_body(8)).at("Error").as_string()),
        HasSubstr("still being listed"));
  }
  EXPECT_EQ(call("POST", "/gpushare-scheduler/preempt", R"({"Pod":{},"NodeNameToMetaVictims":{"gpu-a":{}}})")
                .body.text(),
            R"({"NodeNameToMetaVictims":{}})")
      << "no pod is evicted before all pods are known";
  not_ready_.clear();
  EXPECT_EQ(call("GET", "/readyz").status, 200);
}

TEST_F(ServiceTest, InspectShowsTheLedgerInTheFormatOfTheOriginal) {
  const boost::json::value all = json("GET", "/gpushare-scheduler/inspect");
  const boost::json::value& node = all.at("nodes").as_array().at(0);
  EXPECT_EQ(node.at("name").as_string(), "gpu-a");
  EXPECT_EQ(node.at("totalGPU").as_int64(), 64);
  EXPECT_EQ(node.at("usedGPU").as_int64(), 8);
  const boost::json::value& device = node.at("devs").as_array().at(1);
  EXPECT_EQ(device.at("id").as_int64(), 1);
  EXPECT_EQ(device.at("pods").as_array().at(0).at("name").as_string(), "one");
  EXPECT_EQ(device.at("pods").as_array().at(0).at("usedGPU").as_int64(), 8);
  EXPECT_EQ(json("GET", "/gpushare-scheduler/inspect/gpu-a").at("nodes").as_array().size(), 1U);
}

TEST_F(ServiceTest, InspectShowsTheProblemsOfANode) {
  alloc::Inventory inventory = alloc::testing::inventory_of("gpu-b", {32});
  inventory.also_served_as = {"example.com/gpu"};
  alloc::NodeSpec node = alloc::testing::node_with("gpu-b", inventory);
  node.gpu_memory_units = 31;
  state_.keep_node(node);
  const boost::json::value all = json("GET", "/gpushare-scheduler/inspect/gpu-b");
  EXPECT_THAT(std::string(all.at("nodes").as_array().at(0).at("fenced").as_string()),
              HasSubstr("another device plugin allocates the same GPUs as example.com/gpu"));
  const boost::json::array& problems = all.at("problems").as_array();
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].at("kind").as_string(), "second_plugin");
  EXPECT_EQ(problems[1].at("kind").as_string(), "capacity_differs");
  EXPECT_THAT(std::string(problems[1].at("text").as_string()), HasSubstr("aliyun.com/gpu-mem is 31"));
  EXPECT_TRUE(json("GET", "/gpushare-scheduler/inspect/gpu-a").at("problems").as_array().empty());
}

// If inspect listed all nodes, users could not find 200 nodes with GPUs among 4,800 others.
TEST_F(ServiceTest, InspectListsNodesWithGpusAndNodesExcludedForAReason) {
  alloc::NodeSpec without;
  without.name = "cpu-a";
  state_.keep_node(without);
  alloc::NodeSpec damaged;
  damaged.name = "gpu-b";
  damaged.inventory = "{";
  state_.keep_node(damaged);
  for (const char* prefix : {"/gpushare-scheduler", "/gputopology-scheduler"}) {
    std::vector<std::string> names;
    const boost::json::value all = json("GET", std::string(prefix) + "/inspect");
    for (const boost::json::value& node : all.at("nodes").as_array()) {
      names.emplace_back(node.at("name").as_string());
    }
    EXPECT_THAT(names, ::testing::ElementsAre("gpu-a", "gpu-b")) << prefix;
  }
  const boost::json::value asked_for = json("GET", "/gpushare-scheduler/inspect/cpu-a");
  EXPECT_EQ(asked_for.at("nodes").as_array().at(0).at("fenced").as_string(),
            "it has no GPUs that Tessera knows of");
}

// Defect E8 of the original: it crashed on an unknown node.
TEST_F(ServiceTest, InspectReportsAnUnknownNode) {
  EXPECT_EQ(json("GET", "/gpushare-scheduler/inspect/unknown").at("error").as_string(),
            "node unknown is not known to Tessera");
}

TEST_F(ServiceTest, TopologyInspectCountsGpusAndShowsLinks) {
  const boost::json::value all = json("GET", "/gputopology-scheduler/inspect?detail=true");
  const boost::json::value& node = all.at("nodes").as_array().at(0);
  EXPECT_EQ(node.at("totalGPU").as_int64(), 2);
  EXPECT_EQ(node.at("usedGPU").as_int64(), 1);
  EXPECT_EQ(node.at("topology").as_array().size(), 2U);
  EXPECT_EQ(all.at("policy").as_string(), "ring");
}

TEST_F(ServiceTest, RejectsWrongMethodsAndPaths) {
  EXPECT_EQ(call("GET", "/gpushare-scheduler/filter").status, 405);
  EXPECT_EQ(call("POST", "/gpushare-scheduler/inspect", "{}").status, 405);
  EXPECT_EQ(call("POST", "/gpushare-scheduler/nothing", "{}").status, 404);
  EXPECT_EQ(call("GET", "/nothing").status, 404);
  EXPECT_EQ(call("GET", "/gpushare-schedulerfilter").status, 404);
}

TEST_F(ServiceTest, RecordsAnEventForAPodThatFitsNowhere) {
  json("POST", "/gpushare-scheduler/filter", filter_body(64));
  ASSERT_EQ(events_.notes.size(), 1U);
  EXPECT_EQ(events_.notes[0].reason, "GpuUnavailable");
  EXPECT_THAT(events_.notes[0].message, HasSubstr("no GPU is as large as 64GiB"));
}

// kube-scheduler tries a pod after every change in the cluster. The Event had a count of 34 after 10
// seconds.
TEST_F(ServiceTest, DoesNotRepeatTheEventOfAPodAtEachTry) {
  for (int i = 0; i < 34; ++i) {
    json("POST", "/gpushare-scheduler/filter", filter_body(64));
  }
  EXPECT_EQ(events_.notes.size(), 1U);
}

TEST_F(ServiceTest, RecordsOnceThatAContainerRequestsWholeAndSharedGpus) {
  std::string body = filter_body(3);
  body.insert(body.find("\"aliyun.com/gpu-mem\""), R"("aliyun.com/gpu":"1",)");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(json("POST", "/gpushare-scheduler/filter", body).at("NodeNames").as_array().size(), 1U)
        << "the request is valid";
  }
  ASSERT_EQ(events_.notes.size(), 1U);
  EXPECT_EQ(events_.notes[0].reason, "MixedGpuRequest");
  EXPECT_TRUE(events_.notes[0].warning);
  EXPECT_THAT(events_.notes[0].message,
              HasSubstr("gets 1 whole GPU (aliyun.com/gpu) and also 3GiB of another"));
}

TEST_F(ServiceTest, ReturnsTheVersionAsPlainText) {
  EXPECT_THAT(std::string(call("GET", "/version").body.text()),
              ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

}  // namespace
}  // namespace tessera::extender
