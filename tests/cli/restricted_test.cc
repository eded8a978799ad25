// Users who may list the pods of one namespace only, and no nodes.
#include "cli/diagnose/restricted.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <csignal>
#include <sstream>
#include <thread>

#include "../kube/fake_api_server.h"
#include "base/file.h"
#include "cli/top/top.h"
#include "http/event_loop.h"
#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

constexpr const char* kEvents = R"({"kind":"EventList","items":[
  {"reason":"GpuUnavailable","message":"0 of 3 nodes fit: old","reportingComponent":"tessera-extender",
   "lastTimestamp":"2026-01-01T00:00:00Z"},
  {"reason":"GpuUnavailable","message":"0 of 3 nodes fit: no single GPU has 8GiB free","reportingComponent":
   "tessera-extender","lastTimestamp":"2026-01-01T00:05:00Z"},
  {"reason":"FailedScheduling","message":"0/3 nodes","reportingComponent":"default-scheduler",
   "lastTimestamp":"2026-01-01T00:06:00Z"}]})";

// An API server that lets its user list the pods and Events of namespace ml, and nothing else.
class RestrictedUser : public ::testing::Test {
 protected:
  RestrictedUser() : server_(loop_) {
    cluster_.node("gpu-a", inventory_of("a", 2, 16384));
    cluster_.pod("ml", "bound", "gpu-a", {.units = 4, .annotations = record(share_record({{"GPU-a-1", 4}}))});
    cluster_.pod("ml", "whole", "gpu-a", {.whole = 1, .annotations = record(whole_record({"GPU-a-0"}))});
    cluster_.pod("ml", "stray", "gpu-a", {.units = 1});
    cluster_.pod(
        "ml", "train-7", "",
        {.units = 8, .phase = "Pending", .scheduler = "tessera-scheduler", .scheduling_attempted = true});
    cluster_.pod("secret", "hidden", "gpu-a", {.units = 2});
    server_.intercept = [this](const kube::FakeApiServer::Seen& seen) { return answer(seen.target); };
    (void)write_file(
        directory_ / "config",
        fmt::format("apiVersion: v1\nkind: Config\ncurrent-context: test\n"
                    "clusters: [{{name: c, cluster: {{server: \"{}\"}}}}]\n"
                    "users: [{{name: u, user: {{}}}}]\n"
                    "contexts: [{{name: test, context: {{cluster: c, user: u, namespace: ml}}}}]\n",
                    server_.url()));
    thread_ = std::jthread([this] { loop_.run(); });
  }
  ~RestrictedUser() override { loop_.stop(); }

  std::optional<http::Response> answer(const std::string& target) {
    if (target.starts_with("/api/v1/namespaces/ml/events?") && may_list_events_) {
      return http::Response{.body = kEvents};
    }
    if (target.starts_with("/api/v1/nodes") && may_list_nodes_) {
      return list_of(boost::json::parse(cluster_.nodes_json()).at("items").as_array());
    }
    if (!target.starts_with("/api/v1/namespaces/ml/pods?")) {
      return http::Response{.status = 403,
                            .body = kube::status_json(403, "Forbidden", "user jane cannot list " + target)};
    }
    if (target.find("watch=") != std::string::npos) {
      return http::Response{.body = ""};
    }
    boost::json::array own;
    const boost::json::value pods = boost::json::parse(cluster_.pods_json());
    for (const auto& pod : pods.at("items").as_array()) {
      if (pod.at("metadata").at("namespace") == "ml") {
        own.push_back(pod);
      }
    }
    return list_of(own);
  }
  static http::Response list_of(const boost::json::array& items) {
    return {.body = boost::json::serialize(
                boost::json::object{{"kind", "List"},
                                    {"metadata", boost::json::object{{"resourceVersion", "9"}}},
                                    {"items", items}})};
  }

  Outcome why(const std::string& pod, const std::string& namespace_name = "") {
    WhyOptions options{.pod = pod};
    options.cluster.kubeconfig = directory_ / "config";
    options.cluster.namespace_name = namespace_name;
    std::ostringstream out;
    std::ostringstream err;
    const int code = run_why(options, out, err, {});
    return {code, out.str(), err.str()};
  }
  Outcome top(TopOptions options = {}) {
    options.pods = true;
    options.cluster.kubeconfig = directory_ / "config";
    std::ostringstream out;
    std::ostringstream err;
    const int code = run_top(options, out, err, {});
    return {code, out.str(), err.str()};
  }

  http::EventLoop loop_;
  kube::FakeApiServer server_;
  SavedCluster cluster_;
  TemporaryDirectory directory_;
  bool may_list_events_ = true;
  bool may_list_nodes_ = false;
  std::jthread thread_;
};

TEST_F(RestrictedUser, WhyShowsWhatThePodItselfSays) {
  const Outcome text = why("train-7");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.err, "");
  EXPECT_EQ(text.out,
            "train-7 needs aliyun.com/gpu-mem: 8 on one GPU. It is not known which nodes have room.\n"
            "tessera-scheduler says: 0/2 nodes\n"
            "Event GpuUnavailable: 0 of 3 nodes fit: no single GPU has 8GiB free\n"
            "Not shown: nodes and pods outside namespace ml, which you may not list; ask for a "
            "ClusterRoleBinding to the ClusterRole tessera-viewer\n");
}

TEST_F(RestrictedUser, WhyWorksWithoutPermissionToListEvents) {
  may_list_events_ = false;
  const Outcome text = why("train-7");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(has(text.out, "tessera-scheduler says: 0/2 nodes")) << text.out;
  EXPECT_FALSE(has(text.out, "Event")) << text.out;
}

TEST_F(RestrictedUser, WhyShowsTheRecordOfABoundPod) {
  EXPECT_TRUE(
      has(why("bound").out,
          "ml/bound is not waiting for a GPU: it is on node gpu-a, with GPU GPU-a-1 (aliyun.com/gpu-mem: "
          "4), as requested.\n"))
      << why("bound").out;
  EXPECT_TRUE(has(why("whole").out, "with GPU GPU-a-0 (whole), as requested.")) << why("whole").out;
  EXPECT_TRUE(has(why("stray").out, "It has no record of its GPUs.")) << why("stray").out;
}

TEST_F(RestrictedUser, WhyReportsAnInvalidRequest) {
  loop_.call([&] { cluster_.pod("ml", "odd", "", {.units = -3, .phase = "Pending"}); });
  EXPECT_TRUE(has(why("odd").out, "its request is invalid")) << why("odd").out;
}

// With nodes but without the pods of others, all their memory would look free.
TEST_F(RestrictedUser, WhyDoesNotGuessWhatIsFreeIfItSeesOnlySomePods) {
  loop_.call([&] { may_list_nodes_ = true; });
  const Outcome text = why("train-7");
  EXPECT_TRUE(has(text.out, "It is not known which nodes have room.")) << text.out;
  EXPECT_TRUE(has(text.out, "Not shown: pods outside namespace ml,")) << text.out;
  EXPECT_TRUE(has(why("bound").out, "GPU 1 (4 GiB)")) << why("bound").out;
}

TEST_F(RestrictedUser, GetsOneErrorForAnotherNamespace) {
  const Outcome text = why("hidden", "secret");
  EXPECT_EQ(text.code, 1);
  EXPECT_EQ(text.out, "");
  EXPECT_EQ(std::ranges::count(text.err, '\n'), 1) << text.err;
  EXPECT_TRUE(has(text.err, "RoleBinding to the ClusterRole tessera-viewer in namespace secret")) << text.err;
}

TEST_F(RestrictedUser, TopShowsRequestsAndRecordsOfThePods) {
  const Outcome text = top();
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.err,
            "warning: Not shown: nodes and pods outside namespace ml, which you may not list; ask for a "
            "ClusterRoleBinding to the ClusterRole tessera-viewer\n");
  EXPECT_EQ(text.out,
            "NAMESPACE  NAME     NODE   GPU(Requested)  GPU(Allocated)\n"
            "ml         bound    gpu-a  4 units         GPU-a-1(4 units)\n"
            "ml         stray    gpu-a  1 unit          undecided\n"
            "ml         train-7  -      8 units         pending\n"
            "ml         whole    gpu-a  1 GPU           GPU-a-0(whole)\n");
  const Outcome json = top({.output = "json"});
  EXPECT_TRUE(has(json.out, "\"GPU-a-1\": 4")) << json.out;
}

TEST_F(RestrictedUser, TopKeepsRunningWithWatch) {
  TerminalProgram program("tessera",
                          {"top", "pod", "--kubeconfig", directory_ / "config", "--watch", "--no-metrics"},
                          {{"TERM", "xterm"}});
  ASSERT_TRUE(program.read_until("GPU-a-1(4 units)")) << program.output();
  program.signal(SIGTERM);
  EXPECT_EQ(program.finish(), 0);
}

TEST(TesseraEvents, IgnoresWhatIsNotAListOfEvents) {
  EXPECT_TRUE(tessera_events("").empty());
  EXPECT_TRUE(tessera_events(R"({"items":{}})").empty());
  EXPECT_TRUE(tessera_events(R"({"items":[1,{"reason":5}]})").empty());
}

}  // namespace
}  // namespace tessera::cli
