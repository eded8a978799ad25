// Reading a cluster: pages of lists, label selectors, the API server.
#include "cli/cluster/cluster.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <csignal>
#include <sstream>
#include <thread>

#include "../kube/fake_api_server.h"
#include "base/file.h"
#include "base/strings.h"
#include "cli/cluster/label_selector.h"
#include "cli/cluster/list_pages.h"
#include "cli/inspect/inspect.h"
#include "cli/output/tabbed_text.h"
#include "http/event_loop.h"
#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

struct Pages {
  std::vector<std::string> texts;
  Status status;
};

Pages pages_of(const std::string& text, const PageLimits& limits = {}) {
  std::istringstream in(text);
  Pages pages;
  pages.status = each_page(in, limits, [&](json::PaddedView page) -> Status {
    pages.texts.emplace_back(page.text());
    return {};
  });
  return pages;
}

TEST(ListPages, SplitsAListBetweenItems) {
  const std::string list =
      R"({"kind":"List","x":{"items":[1]},"items": [ {"a":"}],{\"\\"} , {"b":[{}]},{} ],"metadata":{"resourceVersion":""}})";
  const Pages all = pages_of(list);
  ASSERT_TRUE(all.status) << all.status.error().text();
  ASSERT_EQ(all.texts.size(), 1U);
  EXPECT_EQ(all.texts[0], R"({"metadata":{"resourceVersion":"1"},"items":[{"a":"}],{\"\\"},{"b":[{}]},{}]})");
  EXPECT_EQ(pages_of(list, {.page_bytes = 1}).texts.size(), 3U);
}

TEST(ListPages, AcceptsAnEmptyList) {
  EXPECT_TRUE(pages_of(R"({"items":[]})").status);
  EXPECT_TRUE(pages_of(R"({"items":[]})").texts.empty());
}

TEST(ListPages, RejectsTextThatIsNotAList) {
  for (const char* text : {"", "  ", "[]", "{}", R"({"items":{}})", R"({"items":[{})", R"({"items":[1]})",
                           R"({"items":[]} x)", R"({"items":"[]"})", R"({"name":"items","x":[{}]})"}) {
    EXPECT_FALSE(pages_of(text).status) << text;
  }
  EXPECT_FALSE(pages_of(R"({"items":[{"a":"bbbbbbbbbbbbbbbbbbbbbbb"}]})", {.item_bytes = 8}).status);
}

TEST(TabbedText, LaysOutCellsLikeGosTabwriter) {
  EXPECT_EQ(tabbed_text("a\tb\tc\n"), "a  b  c\n");
  EXPECT_EQ(tabbed_text("aaa\tb\n\nc\td\n"), "aaa  b\n\nc  d\n") << "a line without cells ends the column";
  EXPECT_EQ(tabbed_text("a\t\t\nbb\tcc\t\n"), "a       \nbb  cc  \n");
  EXPECT_EQ(tabbed_text("é\tx\nab\tx\n"), "é   x\nab  x\n");
  EXPECT_EQ(tabbed_text(""), "");
}

TEST(LabelSelector, MatchesLikeKubectl) {
  const std::map<std::string, std::string, std::less<>> labels{{"gpushare", "true"}, {"zone", "b"}};
  for (const char* text : {"", "gpushare=true", "gpushare==true,zone=b", "zone in (a, b)", "zone notin (c)",
                           "zone", "!spot", "spot!=x", " zone != a "}) {
    const auto selector = LabelSelector::parse(text);
    ASSERT_TRUE(selector) << text;
    EXPECT_TRUE(selector->matches(labels)) << text;
  }
  for (const char* text : {"gpushare=false", "zone in (a)", "!zone", "spot", "zone=b,spot"}) {
    EXPECT_FALSE(LabelSelector::parse(text)->matches(labels)) << text;
  }
  for (const char* text : {"=x", "zone in a", "zone at (a)", "a b", "zone=a b", ",", "zone in (a"}) {
    EXPECT_FALSE(LabelSelector::parse(text)) << text;
  }
}

TEST(Cluster, WarnsAboutObjectsThatItCannotRead) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(write_file(directory / "nodes.json",
                         R"({"items":[{"metadata":{"name":"good"},"status":{}},
                             {"metadata":{"name":"odd"},"status":{"capacity":{"aliyun.com/gpu-mem":"lots"}}}]})"));
  ASSERT_TRUE(write_file(directory / "pods.json", R"({"items":[]})"));
  const auto cluster = read_cluster({.file = directory.path()}, {});
  ASSERT_TRUE(cluster) << cluster.error().text();
  ASSERT_EQ(cluster->nodes.size(), 1U);
  EXPECT_EQ(cluster->nodes[0].spec.name, "good");
  ASSERT_EQ(cluster->warnings.size(), 1U);
  EXPECT_NE(cluster->warnings[0].find("node odd is ignored"), std::string::npos) << cluster->warnings[0];
}

TEST(Cluster, NamesTheInvalidFile) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(write_file(directory / "nodes.json", R"({"items":[{"metadata":)"));
  const auto cluster = read_cluster({.file = directory.path()}, {});
  ASSERT_FALSE(cluster);
  EXPECT_NE(cluster.error().text().find("nodes.json"), std::string::npos);
}

std::string error_of_files(const std::string& nodes, const std::string& pods) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(write_file(directory / "nodes.json", nodes));
  EXPECT_TRUE(write_file(directory / "pods.json", pods));
  const auto cluster = read_cluster({.file = directory.path()}, {});
  return cluster ? "" : cluster.error().text();
}

TEST(Cluster, NoticesSwappedFiles) {
  SavedCluster cluster;
  fill_tessera_cluster(cluster);
  EXPECT_EQ(error_of_files(cluster.nodes_json(), cluster.pods_json()), "");
  EXPECT_THAT(error_of_files(cluster.pods_json(), cluster.nodes_json()),
              HasSubstr("/nodes.json: it contains pods, not nodes; save it with: kubectl get nodes -o json > "
                        "nodes.json"));
  EXPECT_THAT(
      error_of_files(cluster.nodes_json(), cluster.nodes_json()),
      HasSubstr("/pods.json: it contains nodes, not pods; save it with: kubectl get pods -A -o json"));
  // kubectl names the kind of each object, whatever fields it has.
  const std::string none = R"({"items":[]})";
  EXPECT_THAT(error_of_files(R"({"items":[{"kind":"Pod","metadata":{"name":"a"}}]})", none),
              HasSubstr("contains pods"));
  EXPECT_THAT(error_of_files(none, R"({"items":[{"kind":"Job","metadata":{"name":"a"}}]})"),
              HasSubstr("contains objects of kind \"Job\", not pods"));
  EXPECT_EQ(error_of_files(R"({"items":[{"kind":"Node","metadata":{"name":"a"}}]})", none), "");
}

TEST(Cluster, SaysHowToSaveAnInvalidFile) {
  const std::string how = "save it with: kubectl get nodes -o json > nodes.json";
  for (const char* nodes : {"", "NAME  STATUS", "[]", "{}", R"({"items":[{]})", R"({"items":[)"}) {
    const std::string error = error_of_files(nodes, R"({"items":[]})");
    EXPECT_THAT(error, HasSubstr("/nodes.json: ")) << nodes;
    EXPECT_THAT(error, HasSubstr(how)) << nodes;
  }
}

TEST(Cluster, SaysThatFilesAreInADirectory) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(write_file(directory / "nodes.json", R"({"items":[]})"));
  const auto cluster = read_cluster({.file = directory / "nodes.json"}, {});
  ASSERT_FALSE(cluster);
  EXPECT_THAT(cluster.error().text(),
              HasSubstr("--file takes a directory with nodes.json and pods.json, but " +
                        (directory / "nodes.json") + " is a file"));
}

// An API server that serves the lists of a saved cluster in two pages.
class ApiCluster : public ::testing::Test {
 protected:
  ApiCluster() : server_(loop_) {
    cluster_.plain_node("n1", {.units = 30, .gpus = 2});
    cluster_.plain_node("n2", {.units = 30, .gpus = 2});
    cluster_.pod("ml", "a", "n1", {.units = 3, .annotations = {{"ALIYUN_COM_GPU_MEM_IDX", "0"}}});
    cluster_.pod("web", "b", "n2", {.units = 5, .annotations = {{"ALIYUN_COM_GPU_MEM_IDX", "1"}}});
    server_.intercept = [this](const kube::FakeApiServer::Seen& seen) { return answer(seen.target); };
    (void)write_file(directory_ / "config",
                     "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
                     "clusters: [{name: c, cluster: {server: \"" +
                         server_.url() +
                         "\"}}]\n"
                         "users: [{name: u, user: {}}]\n"
                         "contexts: [{name: test, context: {cluster: c, user: u, namespace: ml}}]\n");
    thread_ = std::jthread([this] { loop_.run(); });
  }
  ~ApiCluster() override { loop_.stop(); }

  std::optional<http::Response> answer(const std::string& target) {
    if (!refusal_.empty()) {
      return http::Response{.status = 403, .body = kube::status_json(403, "Forbidden", refusal_)};
    }
    const bool nodes = target.starts_with("/api/v1/nodes");
    if (target.find("watch=") != std::string::npos) {
      return http::Response{.body = nodes ? "" : pod_events_};
    }
    if (target.find("/proxy/metrics") != std::string::npos) {
      return http::Response{.body = fmt::format("tessera_gpu_memory_used_bytes{{uuid=\"GPU-a-0\"}} {}\n",
                                                ++metrics_asked_ << 30U)};
    }
    auto list = boost::json::parse(nodes ? cluster_.nodes_json() : cluster_.pods_json());
    boost::json::array& items = list.at("items").as_array();
    if (target.find("labelSelector=") != std::string::npos) {
      return own_pods(items, target.find("agent") != std::string::npos ? "agent" : "scheduler");
    }
    const bool second = target.find("continue=") != std::string::npos;
    if (second && expire_ > 0) {
      --expire_;
      return http::Response{.status = 410, .body = kube::status_json(410, "Expired", "too old")};
    }
    // The first page has one item, the second the rest.
    const auto middle = items.begin() + 1;
    const boost::json::array page(second ? middle : items.begin(), second ? items.end() : middle);
    return page_of(page, second ? "" : "next/page");
  }

  std::optional<http::Response> own_pods(const boost::json::array& pods, std::string_view component) {
    boost::json::array found;
    for (const auto& pod : pods) {
      const auto* labels = pod.at("metadata").as_object().if_contains("labels");
      const auto* label =
          labels == nullptr ? nullptr : labels->as_object().if_contains("app.kubernetes.io/component");
      if (label != nullptr && label->as_string() == component) {
        found.push_back(pod);
      }
    }
    return hide_own_pods_
               ? http::Response{.status = 403, .body = kube::status_json(403, "Forbidden", "only ml")}
               : page_of(found, "");
  }

  static http::Response page_of(const boost::json::array& items, const std::string& next) {
    boost::json::object meta{{"resourceVersion", "9"}};
    if (!next.empty()) {
      meta["continue"] = next;
    }
    return {.body = boost::json::serialize(
                boost::json::object{{"kind", "List"}, {"metadata", meta}, {"items", items}})};
  }

  [[nodiscard]] ClusterOptions options() const { return {.kubeconfig = directory_ / "config"}; }

  http::EventLoop loop_;
  kube::FakeApiServer server_;
  SavedCluster cluster_;
  TemporaryDirectory directory_;
  std::string refusal_;
  std::string pod_events_;      // the events of a pod watch before it ends
  int expire_ = 0;              // number of requests for the second page to answer with 410 Expired
  bool hide_own_pods_ = false;  // the user may not list pods of all namespaces
  std::uint64_t metrics_asked_ = 0;
  std::jthread thread_;
};

TEST_F(ApiCluster, ListsNodesAndPodsPageByPage) {
  const auto cluster = read_cluster(options(), {});
  ASSERT_TRUE(cluster) << cluster.error().text();
  EXPECT_EQ(cluster->nodes.size(), 2U);
  EXPECT_EQ(cluster->pods.size(), 2U);
  EXPECT_EQ(cluster->default_namespace, "ml");
}

TEST_F(ApiCluster, RestartsAListWhosePagesExpired) {
  expire_ = 1;
  const auto cluster = read_cluster(options(), {});
  ASSERT_TRUE(cluster) << cluster.error().text();
  EXPECT_EQ(cluster->nodes.size(), 2U);
}

TEST_F(ApiCluster, ReportsWhyAListWasInterruptedTwice) {
  expire_ = 2;
  const auto cluster = read_cluster(options(), {});
  ASSERT_FALSE(cluster);
  EXPECT_NE(cluster.error().text().find("interrupted twice: list /api/v1/nodes"), std::string::npos)
      << cluster.error().text();
  EXPECT_NE(cluster.error().text().find("too old"), std::string::npos) << cluster.error().text();
}

TEST_F(ApiCluster, ReadsTheResourceNamesFromTesserasPods) {
  cluster_.placer("tessera-scheduler-0", {.annotations = {{"tessera.io/resource-prefix", "example.com"}}});
  const auto cluster = read_cluster(options(), {});
  ASSERT_TRUE(cluster) << cluster.error().text();
  EXPECT_EQ(cluster->names.memory(), "example.com/gpu-mem");
  EXPECT_TRUE(cluster->pods.empty()) << "no pod requests example.com/gpu-mem";
}

TEST_F(ApiCluster, UsesTheDefaultNamesIfTesserasPodsCannotBeListed) {
  hide_own_pods_ = true;
  const auto cluster = read_cluster(options(), {});
  ASSERT_TRUE(cluster) << cluster.error().text();
  EXPECT_EQ(cluster->pods.size(), 2U);
}

TEST_F(ApiCluster, RequestsOnlyTheGivenNodeAndNamespace) {
  InspectOptions inspect{.cluster = options(), .nodes = {"n1"}};
  inspect.cluster.namespace_name = "ml";
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(run_inspect(inspect, out, err, {}), 0) << err.str();
  EXPECT_NE(out.str().find("3/30"), std::string::npos) << out.str();
  loop_.call([&] {
    // The first request lists Tessera's own pods.
    ASSERT_GT(server_.seen.size(), 2U);
    EXPECT_NE(server_.seen[1].target.find("fieldSelector=metadata.name%3Dn1"), std::string::npos)
        << server_.seen[1].target;
    EXPECT_TRUE(server_.seen.back().target.starts_with("/api/v1/namespaces/ml/pods?"));
    EXPECT_NE(server_.seen.back().target.find("spec.nodeName%3Dn1"), std::string::npos);
  });
}

TEST_F(ApiCluster, RedrawsOnWatchEvents) {
  TerminalProgram program("kubectl-inspect-gpushare",
                          {"--kubeconfig", options().kubeconfig, "--watch", "--interval", "1"},
                          {{"TERM", "xterm"}});
  ASSERT_TRUE(program.read_until("8/60 (13%)")) << program.output();
  cluster_.pod("web", "c", "n2", {.units = 10, .annotations = {{"ALIYUN_COM_GPU_MEM_IDX", "1"}}});
  auto list = boost::json::parse(cluster_.pods_json());
  boost::json::object& added = list.at("items").as_array().back().as_object();
  added["metadata"].as_object()["resourceVersion"] = "12";
  loop_.call([&] {
    pod_events_ = boost::json::serialize(boost::json::object{{"type", "ADDED"}, {"object", added}}) + "\n";
  });
  ASSERT_TRUE(program.read_until("18/60 (30%)")) << program.output();
  program.signal(SIGTERM);
  EXPECT_EQ(program.finish(), 0);
}

TEST_F(ApiCluster, WatchesOnlyTheNamespaceOfTheContext) {
  TerminalProgram program("tessera",
                          {"top", "pod", "--kubeconfig", options().kubeconfig, "--watch", "--no-metrics"},
                          {{"TERM", "xterm"}});
  ASSERT_TRUE(program.read_until("n1")) << program.output();
  program.signal(SIGTERM);
  EXPECT_EQ(program.finish(), 0);
  EXPECT_EQ(program.output().find("n2"), std::string::npos) << "n2 only has a pod of another namespace";
}

TEST_F(ApiCluster, ReadsMetricsAtEveryIntervalEvenIfNoObjectChanges) {
  cluster_.node("gpu-a", inventory_of("a", 1, 16384));
  cluster_.placer("agent-a", {.component = "agent"});
  TerminalProgram program(
      "tessera",
      {"top", "node", "-d", "gpu-a", "--kubeconfig", options().kubeconfig, "--watch", "--interval", "1"},
      {{"TERM", "xterm"}});
  ASSERT_TRUE(program.read_until("1.0 GiB")) << program.output();
  ASSERT_TRUE(program.read_until("3.0 GiB")) << program.output();
  program.signal(SIGTERM);
  EXPECT_EQ(program.finish(), 0);
}

TEST_F(ApiCluster, FailsIfAWatchCannotStart) {
  refusal_ = "nodes is forbidden: user cannot list";
  const Outcome outcome =
      run_in_pipe("kubectl-inspect-gpushare", {"--kubeconfig", options().kubeconfig, "--watch"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("cannot list"), std::string::npos) << outcome.err;
}

TEST_F(ApiCluster, PrintsTheErrorOfTheServer) {
  refusal_ = "nodes is forbidden: user cannot list";
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(run_inspect({.cluster = options()}, out, err, {}), 1);
  EXPECT_EQ(out.str(), "");
  EXPECT_NE(err.str().find("cannot list"), std::string::npos) << err.str();
}

}  // namespace
}  // namespace tessera::cli
