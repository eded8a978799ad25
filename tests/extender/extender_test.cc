// The extender as the program runs it: all of its parts, with its event loop on a thread of its
// own, and a fake API server and kube-scheduler on others.
#include "extender/extender.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json.hpp>
#include <thread>

#include "../alloc/cluster.h"
#include "../kube/fake_api_server.h"
#include "base/clock.h"
#include "http/client.h"

namespace tessera::extender {
namespace {

using namespace std::chrono_literals;
using boost::json::object;
using ::testing::HasSubstr;

constexpr const char* kLease = "/apis/coordination.k8s.io/v1/namespaces/gpu/leases/tessera-extender";
constexpr const char* kSchedulerLease =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/tessera-scheduler";

// Waits until another thread makes the condition true.
bool eventually(const std::function<bool()>& condition, std::chrono::seconds at_most = 20s) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

// One extender, as run() creates it.
class Replica {
 public:
  Replica(kube::FakeApiServer& cluster, Config config, const std::string& pod) {
    config.port = 0;
    Result<std::unique_ptr<Extender>> made =
        Extender::create(loop_, config, cluster.access(), {.name = pod, .namespace_name = "gpu"});
    if (!made) {
      throw std::runtime_error(made.error().text());
    }
    extender_ = *std::move(made);
    url_ = fmt::format("http://127.0.0.1:{}", extender_->port());
    loop_.post([this] { extender_->start(); });
    thread_ = std::thread([this] { loop_.run(); });
    caller_.emplace(http::Client::create(calls_, {.url = url_}).value());
  }
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;
  ~Replica() {
    if (thread_.joinable()) {
      loop_.stop();
      thread_.join();
    }
  }

  std::string call(const std::string& method, const std::string& target, const std::string& body = "") {
    const Result<http::ClientResponse> response =
        caller_->fetch({.method = method, .target = target, .body = body});
    return response ? std::string(response->body.text()) : "failed: " + response.error().text();
  }
  boost::json::value verb(const std::string& name, const std::string& body) {
    return boost::json::parse(call("POST", "/gpushare-scheduler/" + name, body));
  }
  std::string bind(const std::string& pod, const std::string& node) {
    return std::string(verb("bind", bind_body(pod, node)).at("Error").as_string());
  }
  // Does not wait for the response, which is added to answers().
  void begin_bind(const std::string& pod, const std::string& node) {
    in_flight_.push_back(caller_->send(
        {.method = "POST", .target = "/gpushare-scheduler/bind", .body = bind_body(pod, node)},
        [this](const Result<http::ClientResponse>& response) {
          answers_.push_back(response ? std::string(response->body.text()) : response.error().text());
        }));
    calls_.run_until([] { return false; }, 1ms);
  }
  // Closes the connections of the scheduler.
  void hang_up() {
    in_flight_.clear();
    calls_.run_until([] { return false; }, 1ms);
  }
  std::vector<std::string> answers(std::size_t count) {
    calls_.run_until([&] { return answers_.size() >= count; }, 20s);
    return answers_;
  }

  bool ready() { return call("GET", "/readyz") == "ok\n"; }
  bool leads() { return call("GET", "/metrics").find("tessera_extender_leading 1\n") != std::string::npos; }
  void reload(const Config& config) {
    loop_.post([this, config] { extender_->reload(config); });
  }
  // Stops the extender as SIGTERM does. stopped() returns whether it has stopped.
  void stop() {
    loop_.post([this] {
      extender_->stop([this] {
        stopped_ = true;
        loop_.stop();
      });
    });
  }
  bool stopped() const { return stopped_; }

 private:
  static std::string bind_body(const std::string& pod, const std::string& node) {
    return fmt::format(R"({{"PodName":"{0}","PodNamespace":"ml","PodUID":"uid-{0}","Node":"{1}"}})", pod,
                       node);
  }

  http::EventLoop loop_;
  std::unique_ptr<Extender> extender_;
  std::string url_;
  std::atomic<bool> stopped_ = false;
  std::thread thread_;
  http::EventLoop calls_;  // the scheduler's
  std::optional<http::Client> caller_;
  std::vector<http::Call> in_flight_;
  std::vector<std::string> answers_;
};

class ExtenderTest : public ::testing::Test {
 protected:
  ExtenderTest() {
    node("gpu-a", {32, 32});
    node("gpu-b", {32, 32});
    for (const char* replica : {"one", "two"}) {
      cluster_.put(fmt::format("/api/v1/namespaces/gpu/pods/{}", replica), {{"spec", object()}});
    }
  }

  void node(const std::string& name, const std::vector<std::uint32_t>& gib,
            const std::vector<std::string>& also_served_as = {}) {
    alloc::Inventory inventory = alloc::testing::inventory_of(name, gib);
    inventory.also_served_as = also_served_as;
    cluster_.put("/api/v1/nodes/" + name,
                 {{"metadata", {{"annotations", {{"tessera.io/inventory", inventory.json()}}}}},
                  {"status", {{"allocatable", {{"cpu", "64"}, {"memory", "256Gi"}}}}}});
  }
  static object pod_object(const std::string& name, int units, int priority = 0) {
    return {{"metadata", {{"name", name}, {"namespace", "ml"}, {"uid", "uid-" + name}}},
            {"spec",
             {{"priority", priority},
              {"containers",
               {{{"name", "main"},
                 {"resources", {{"limits", {{"aliyun.com/gpu-mem", std::to_string(units)}}}}}}}}}},
            {"status", {{"phase", "Pending"}}}};
  }
  void pod(const std::string& name, int units) {
    cluster_.put("/api/v1/namespaces/ml/pods/" + name, pod_object(name, units));
  }
  static std::string args(const std::string& name, int units) {
    return boost::json::serialize(
        object{{"Pod", pod_object(name, units)}, {"NodeNames", {"gpu-a", "gpu-b"}}});
  }
  std::string node_of(const std::string& pod) {
    const boost::json::value found = cluster_.get("/api/v1/namespaces/ml/pods/" + pod);
    const auto* node = found.at("spec").as_object().if_contains("nodeName");
    return node == nullptr ? "" : std::string(node->as_string());
  }
  bool has_event(const std::string& reason, const std::string& about) {
    for (const object& event : cluster_.all("events")) {
      if (event.at("reason").as_string() == reason &&
          event.at("involvedObject").at("name").as_string() == about) {
        return true;
      }
    }
    return false;
  }
  // As short as an election allows.
  static Config behind_a_service() {
    Config config;
    config.attach = Attach::kService;
    config.lease_duration = 3s;
    config.renew_deadline = 2s;
    config.retry_period = 1s;
    config.bind_timeout = 500ms;
    return config;
  }
  static std::string best(Replica& replica, const std::string& pod, int units) {
    std::string host;
    std::int64_t most = -1;
    const boost::json::value scores = replica.verb("prioritize", args(pod, units));
    for (const auto& one : scores.as_array()) {
      if (one.at("Score").as_int64() > most) {
        most = one.at("Score").as_int64();
        host = one.at("Host").as_string();
      }
    }
    return host;
  }

  kube::FakeApiServer cluster_;
};

TEST_F(ExtenderTest, HandlesAPodThroughAllVerbs) {
  pod("p", 8);
  Replica replica(cluster_, {}, "one");
  ASSERT_TRUE(eventually([&] { return replica.ready(); }));
  EXPECT_EQ(replica.verb("filter", args("p", 8)).at("NodeNames").as_array().size(), 2U);
  EXPECT_EQ(replica.verb("prioritize", args("p", 8)).as_array().size(), 2U);
  EXPECT_EQ(replica.bind("p", "gpu-b"), "");
  EXPECT_EQ(replica.bind("p", "gpu-b"), "") << "the second call gets the same result";
  EXPECT_EQ(node_of("p"), "gpu-b");
  EXPECT_TRUE(eventually([&] { return has_event("GpuAssigned", "p"); }));

  // Evict it for a pod with a higher priority.
  pod("q", 30);
  ASSERT_EQ(replica.bind("q", "gpu-b"), "");
  const boost::json::value victims = replica.verb(
      "preempt",
      boost::json::serialize(object{
          {"Pod", pod_object("r", 30, 1000)},
          {"NodeNameToMetaVictims",
           {{"gpu-b", {{"Pods", {{{"UID", "uid-p"}}, {{"UID", "uid-q"}}}}, {"NumPDBViolations", 0}}}}}}));
  EXPECT_EQ(victims.at("NodeNameToMetaVictims").at("gpu-b").at("Pods").as_array().size(), 1U);

  const boost::json::value inspected =
      boost::json::parse(replica.call("GET", "/gpushare-scheduler/inspect/gpu-b"));
  EXPECT_EQ(inspected.at("nodes").as_array().at(0).at("usedGPU").as_int64(), 38);
  EXPECT_TRUE(inspected.at("problems").as_array().empty());
  EXPECT_THAT(replica.call("GET", "/metrics"),
              HasSubstr(R"(tessera_extender_binds_total{result="bound"} 2)"));

  // A broken watch is resumed.
  cluster_.cut_watches();
  cluster_.remove("/api/v1/namespaces/ml/pods/q");
  EXPECT_TRUE(eventually(
      [&] { return replica.verb("filter", args("s", 32)).at("NodeNames").as_array().size() == 2; }));
  replica.stop();
  EXPECT_TRUE(eventually([&] { return replica.stopped(); }));
}

TEST_F(ExtenderTest, ReloadChangesThePolicyAndNothingElse) {
  pod("p", 8);
  Replica replica(cluster_, {}, "one");
  ASSERT_TRUE(eventually([&] { return replica.ready(); }));
  ASSERT_EQ(replica.bind("p", "gpu-b"), "");
  EXPECT_EQ(best(replica, "q", 8), "gpu-b");
  Config next;
  next.share_policy = alloc::Policy::kSpread;
  next.bind_timeout = 100ms;  // would need a restart
  replica.reload(next);
  EXPECT_EQ(best(replica, "q", 8), "gpu-a");
}

TEST_F(ExtenderTest, RecordsAnEventOnANodeWithAnotherDevicePlugin) {
  node("gpu-b", {32, 32}, {"example.com/gpu"});
  Replica replica(cluster_, {}, "one");
  ASSERT_TRUE(eventually([&] { return replica.ready(); }));
  EXPECT_THAT(replica.call("GET", "/metrics"), HasSubstr("tessera_extender_other_plugin_nodes 1\n"));
  EXPECT_TRUE(eventually([&] { return has_event("OtherDevicePlugin", "gpu-b"); }));
}

TEST_F(ExtenderTest, AcknowledgesTheEndOfAnAgentAfterItsLastBindToTheNode) {
  pod("p", 8);
  pod("q", 8);
  Replica replica(cluster_, {}, "one");
  ASSERT_TRUE(eventually([&] { return replica.ready(); }));
  const auto seen = [&]() -> std::string {
    const boost::json::value node = cluster_.get("/api/v1/nodes/gpu-a");
    const auto* value =
        node.at("metadata").at("annotations").as_object().if_contains("tessera.io/draining-seen");
    return value == nullptr ? "" : std::string(value->as_string());
  };
  const auto announce = [&](boost::json::value value) {
    cluster_.change("/api/v1/nodes/gpu-a",
                    {{"metadata", {{"annotations", {{"tessera.io/draining", std::move(value)}}}}}});
  };

  cluster_.hold_bindings();
  replica.begin_bind("p", "gpu-a");
  ASSERT_TRUE(eventually([&] { return cluster_.held_bindings() == 1; }));
  announce("today 1");
  EXPECT_TRUE(eventually(
      [&] { return replica.verb("filter", args("q", 8)).at("NodeNames").as_array().size() == 1; }));
  std::this_thread::sleep_for(400ms);
  EXPECT_EQ(seen(), "") << "a bind to the node is in flight";
  cluster_.release_bindings();
  EXPECT_TRUE(eventually([&] { return seen() == "today 1"; }));
  EXPECT_EQ(node_of("p"), "gpu-a");

  EXPECT_THAT(replica.bind("q", "gpu-a"), HasSubstr("agent"));
  EXPECT_EQ(node_of("q"), "");
  announce(nullptr);
  EXPECT_TRUE(eventually([&] { return replica.bind("q", "gpu-a").empty(); }));
}

TEST_F(ExtenderTest, CountsPodsThatKubeletRejects) {
  pod("p", 8);
  Replica replica(cluster_, {}, "one");
  ASSERT_TRUE(eventually([&] { return replica.ready(); }));
  ASSERT_EQ(replica.bind("p", "gpu-a"), "");
  EXPECT_THAT(replica.call("GET", "/metrics"), HasSubstr("tessera_extender_pods_lost_total 0\n"));
  for (const char* message : {"first", "second"}) {
    cluster_.change(
        "/api/v1/namespaces/ml/pods/p",
        {{"status", {{"phase", "Failed"}, {"reason", "UnexpectedAdmissionError"}, {"message", message}}}});
  }
  EXPECT_TRUE(eventually([&] {
    return replica.call("GET", "/metrics").find("tessera_extender_pods_lost_total 1\n") != std::string::npos;
  }));
}

TEST_F(ExtenderTest, OnlyTheLeaderAcknowledgesTheEndOfAnAgent) {
  cluster_.put(kLease, {{"spec",
                         {{"holderIdentity", "another-replica"},
                          {"leaseDurationSeconds", 3600},
                          {"acquireTime", rfc3339_micros(Clock::real().wall())},
                          {"renewTime", rfc3339_micros(Clock::real().wall())}}}});
  Replica replica(cluster_, behind_a_service(), "one");
  ASSERT_TRUE(eventually([&] { return replica.ready(); }));
  cluster_.change("/api/v1/nodes/gpu-a", {{"metadata", {{"annotations", {{"tessera.io/draining", "x"}}}}}});
  std::this_thread::sleep_for(500ms);
  EXPECT_THAT(boost::json::serialize(cluster_.get("/api/v1/nodes/gpu-a")),
              ::testing::Not(HasSubstr("tessera.io/draining-seen")));
}

TEST_F(ExtenderTest, PlacesNoPodsOnANodeWhoseAgentIsNotReady) {
  const auto agent = [&](const char* name, const char* node, bool ready) {
    cluster_.put(fmt::format("/api/v1/namespaces/gpu/pods/{}", name),
                 {{"metadata", {{"labels", {{"component", "agent"}}}}},
                  {"spec", {{"nodeName", node}}},
                  {"status", {{"containerStatuses", {{{"name", "agent"}, {"ready", ready}}}}}}});
  };
  agent("agent-a", "gpu-a", true);
  agent("agent-b", "gpu-b", true);
  Config config;
  config.agent_selector = "component=agent";
  Replica replica(cluster_, config, "one");
  ASSERT_TRUE(eventually([&] { return replica.ready(); }));
  const auto fits = [&] { return replica.verb("filter", args("p", 8)).at("NodeNames").as_array().size(); };
  EXPECT_TRUE(eventually([&] { return fits() == 2; }));
  agent("agent-a", "gpu-a", false);
  EXPECT_TRUE(eventually([&] { return fits() == 1; }));
  EXPECT_THAT(boost::json::serialize(replica.verb("filter", args("p", 8)).at("FailedAndUnresolvableNodes")),
              HasSubstr("node's GPU agent is stopped or restarting"));
  agent("agent-a2", "gpu-a", true);  // a rolling update
  EXPECT_TRUE(eventually([&] { return fits() == 2; }));
  cluster_.remove("/api/v1/namespaces/gpu/pods/agent-a2");
  cluster_.remove("/api/v1/namespaces/gpu/pods/agent-a");
  EXPECT_TRUE(eventually([&] { return fits() == 1; })) << "the node had an agent before";
}

TEST_F(ExtenderTest, CountsTheNodesThatShouldHaveAnAgentAndHaveNone) {
  const auto agent = [&](const char* node, bool ready) {
    cluster_.put(fmt::format("/api/v1/namespaces/gpu/pods/agent-{}", node),
                 {{"metadata", {{"labels", {{"component", "agent"}}}}},
                  {"spec", {{"nodeName", node}}},
                  {"status", {{"containerStatuses", {{{"name", "agent"}, {"ready", ready}}}}}}});
  };
  agent("gpu-a", true);
  agent("gpu-b", true);
  Config config;
  config.agent_selector = "component=agent";
  Replica replica(cluster_, config, "one");
  ASSERT_TRUE(eventually([&] { return replica.ready(); }));
  const auto missing = [&](int nodes) {
    return eventually([&] {
      return replica.call("GET", "/metrics")
                 .find(fmt::format("tessera_extender_agent_missing_nodes {}\n", nodes)) != std::string::npos;
    });
  };
  EXPECT_TRUE(missing(0));
  agent("gpu-a", false);
  EXPECT_TRUE(missing(1));
  // A node with the label, where no agent pod was ever created, for example because of a taint.
  cluster_.put("/api/v1/nodes/gpu-c", {{"metadata", {{"labels", {{"gpushare", "true"}}}}}});
  EXPECT_TRUE(missing(2));
  cluster_.remove("/api/v1/namespaces/gpu/pods/agent-gpu-a");
  EXPECT_TRUE(missing(1)) << "gpu-a has no label, so its agent was removed on purpose";
  cluster_.remove("/api/v1/nodes/gpu-c");
  EXPECT_TRUE(missing(0));
}

TEST_F(ExtenderTest, OneOfTwoReplicasLeadsAndReleasesTheLeaseWhenItStops) {
  pod("p", 8);
  pod("q", 8);
  auto one = std::make_unique<Replica>(cluster_, behind_a_service(), "one");
  ASSERT_TRUE(eventually([&] { return one->leads(); }));
  Replica two(cluster_, behind_a_service(), "two");
  ASSERT_TRUE(eventually([&] { return two.ready(); }));
  EXPECT_EQ(one->bind("p", "gpu-a"), "");
  EXPECT_THAT(two.bind("q", "gpu-a"), HasSubstr("does not lead"));
  const auto label = [&](const char* pod) {
    return boost::json::serialize(cluster_.get(fmt::format("/api/v1/namespaces/gpu/pods/{}", pod)));
  };
  EXPECT_TRUE(
      eventually([&] { return label("one").find(R"("tessera.io/leader":"true")") != std::string::npos; }));

  one->stop();
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(eventually([&] { return two.leads(); }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  EXPECT_TRUE(eventually([&] { return one->stopped(); }));
  EXPECT_EQ(two.bind("q", "gpu-a"), "");
  EXPECT_TRUE(
      eventually([&] { return label("two").find(R"("tessera.io/leader":"true")") != std::string::npos; }));
  EXPECT_EQ(label("one").find("tessera.io/leader"), std::string::npos);
}

TEST_F(ExtenderTest, StopsBindingWhenItLosesItsLease) {
  pod("p", 8);
  Replica replica(cluster_, behind_a_service(), "one");
  ASSERT_TRUE(eventually([&] { return replica.leads(); }));
  cluster_.put(kLease, {{"spec",
                         {{"holderIdentity", "another-replica"},
                          {"leaseDurationSeconds", 2},
                          {"acquireTime", rfc3339_micros(Clock::real().wall())},
                          {"renewTime", rfc3339_micros(Clock::real().wall())}}}});
  EXPECT_TRUE(eventually([&] { return !replica.leads(); }));
  EXPECT_THAT(replica.bind("p", "gpu-a"), HasSubstr("does not lead"));
  EXPECT_EQ(node_of("p"), "");
  EXPECT_TRUE(eventually([&] { return replica.leads(); })) << "the holder does not renew the Lease";
  EXPECT_TRUE(eventually([&] { return replica.bind("p", "gpu-a").empty(); }));
}

TEST_F(ExtenderTest, BindsAsSidecarWhileItsSchedulerLeads) {
  pod("p", 8);
  const auto lease = [&](const char* holder) {
    cluster_.put(kSchedulerLease, {{"spec",
                                    {{"holderIdentity", holder},
                                     {"leaseDurationSeconds", 15},
                                     {"renewTime", rfc3339_micros(Clock::real().wall())}}}});
  };
  lease("two_x");
  Config config;
  config.scheduler_lease_namespace = "kube-system";
  config.scheduler_lease_name = "tessera-scheduler";
  config.bind_timeout = 1s;
  Replica replica(cluster_, config, "one");
  ASSERT_TRUE(eventually([&] { return replica.ready(); }));
  EXPECT_THAT(replica.bind("p", "gpu-a"), HasSubstr("does not lead"));
  const auto free_at = std::chrono::steady_clock::now();
  lease("");
  lease("one_y");
  EXPECT_TRUE(eventually([&] { return replica.leads(); }));
  // A write of the other extender may take this long.
  EXPECT_GE(std::chrono::steady_clock::now() - free_at, 500ms);
  EXPECT_EQ(replica.bind("p", "gpu-a"), "");
}

// The next extender waits for half of bindTimeout at most.
TEST_F(ExtenderTest, LimitsWritesAsSidecarToHalfOfTheBindTimeout) {
  pod("p", 8);
  cluster_.put(kSchedulerLease, {{"spec",
                                  {{"holderIdentity", "one_y"},
                                   {"leaseDurationSeconds", 15},
                                   {"renewTime", rfc3339_micros(Clock::real().wall())}}}});
  Config config;
  config.scheduler_lease_namespace = "kube-system";
  config.scheduler_lease_name = "tessera-scheduler";
  config.bind_timeout = 1s;
  Replica replica(cluster_, config, "one");
  ASSERT_TRUE(eventually([&] { return replica.ready(); }));
  EXPECT_EQ(replica.bind("p", "gpu-a"), "") << "the bind waits until no other extender can be writing";
  EXPECT_LE(cluster_.timeout_of_last_binding(), 500ms);
  EXPECT_GT(cluster_.timeout_of_last_binding(), 100ms);
}

TEST_F(ExtenderTest, AnswersCallsInProgressBeforeItStops) {
  Replica replica(cluster_, behind_a_service(), "one");
  ASSERT_TRUE(eventually([&] { return replica.leads(); }));
  cluster_.hold_bindings();
  for (const char* name : {"p", "q", "r"}) {
    pod(name, 8);
    replica.begin_bind(name, "gpu-a");
  }
  // The test sends its calls while it waits.
  ASSERT_TRUE(eventually([&] { return replica.ready() && cluster_.held_bindings() == 3; }));
  replica.stop();
  cluster_.release_bindings();
  EXPECT_THAT(replica.answers(3), ::testing::Each(std::string(R"({"Error":""})")));
  EXPECT_TRUE(eventually([&] { return replica.stopped(); }));
  for (const char* name : {"p", "q", "r"}) {
    EXPECT_EQ(node_of(name), "gpu-a");
  }
}

// The caller may disconnect before the write ends. The next leader must not start before that.
TEST_F(ExtenderTest, KeepsItsLeaseUntilItsLastWriteEnds) {
  Config config = behind_a_service();
  config.lease_duration = 15s;
  config.renew_deadline = 10s;
  config.bind_timeout = 4s;
  Replica replica(cluster_, config, "one");
  ASSERT_TRUE(eventually([&] { return replica.leads(); }));
  cluster_.hold_bindings();
  pod("p", 8);
  replica.begin_bind("p", "gpu-a");
  ASSERT_TRUE(eventually([&] { return replica.ready() && cluster_.held_bindings() == 1; }));
  replica.hang_up();
  replica.stop();
  EXPECT_FALSE(eventually([&] { return replica.stopped(); }, 1s)) << "its write is still in flight";
  cluster_.release_bindings();
  EXPECT_TRUE(eventually([&] { return replica.stopped(); }));
  EXPECT_EQ(node_of("p"), "gpu-a");
}

TEST_F(ExtenderTest, StopsWhileTheApiServerIsSilent) {
  Config config;
  config.bind_timeout = 300ms;
  Replica replica(cluster_, config, "one");
  ASSERT_TRUE(eventually([&] { return replica.ready(); }));
  cluster_.hold_bindings();
  pod("p", 8);
  replica.begin_bind("p", "gpu-a");
  ASSERT_TRUE(eventually([&] { return replica.ready() && cluster_.held_bindings() == 1; }));
  replica.stop();
  EXPECT_THAT(replica.answers(1), ::testing::ElementsAre(HasSubstr("pod ml/p: bind to node gpu-a")));
  EXPECT_TRUE(eventually([&] { return replica.stopped(); }));
  // The same for one that is destroyed while it stops: nothing is used after destruction.
  Replica other(cluster_, config, "two");
  ASSERT_TRUE(eventually([&] { return other.ready(); }));
  pod("q", 8);
  other.begin_bind("q", "gpu-a");
  ASSERT_TRUE(eventually([&] { return other.ready() && cluster_.held_bindings() == 2; }));
}

TEST_F(ExtenderTest, ReportsWhyItCannotBeCreated) {
  http::EventLoop loop;
  Config config;
  config.port = 0;
  config.scheduler_lease_namespace = "kube-system";
  config.scheduler_lease_name = "tessera-scheduler";
  const auto nameless = Extender::create(loop, config, cluster_.access(), {});
  ASSERT_FALSE(nameless);
  EXPECT_THAT(nameless.error().text(), HasSubstr("POD_NAME"));
  config = {};
  config.address = "203.0.113.7";  // not an address of this machine
  EXPECT_FALSE(Extender::create(loop, config, cluster_.access(), {}));
}

}  // namespace
}  // namespace tessera::extender
