#include "extender/decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "../alloc/cluster.h"
#include "extender/watch_sinks.h"
#include "kube/object_meta.h"

namespace tessera::extender {
namespace {

using alloc::testing::container;
using alloc::testing::node_of;
using alloc::testing::pod_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DecisionsTest : public ::testing::Test {
 protected:
  DecisionsTest() {
    node("big", {32, 32});
    node("small", {8, 8});
  }

  void node(const std::string& name, const std::vector<std::uint32_t>& gib) {
    state_.keep_node(node_of(name, gib));
  }

  // Adds a bound pod with a record.
  void bound(const std::string& name, const std::string& where, unsigned gpu, unsigned units,
             std::int64_t priority = 0, const std::string& app = "") {
    alloc::PodSpec pod = pod_of(name, {container("main", units)});
    pod.node_name = where;
    pod.priority = priority;
    pod.annotations["tessera.io/allocation"] =
        fmt::format(R"({{"v":1,"containers":{{"main":[{{"gpu":"{}","mem":{}}}]}}}})",
                    alloc::testing::uuid_of(where, gpu), units);
    state_.keep_pod(pod);
    state_.keep_labels(pod,
                       std::vector{objects::hash_of_label("app", app), objects::hash_of_label("tier", "a")});
  }

  // Adds a budget for all pods of an app.
  void budget(const std::string& app, std::int64_t allowed) {
    objects::DisruptionBudget made{.selects = true, .allowed = allowed};
    made.selector.push_back({.labels = {objects::hash_of_label("app", app).label}});
    state_.budgets().keep("ml", app, made);
    state_.budgets().set_known();
  }

  NodeArgs args(const alloc::PodSpec& pod, const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) {
      list += (list.empty() ? "\"" : ",\"") + name + "\"";
    }
    body_ = json::PaddedBuffer(list);
    NodeArgs made;
    made.pod = pod;
    made.text = body_.view();
    made.nodes = lists_.read(made.text);
    return made;
  }

  boost::json::object filter(const alloc::PodSpec& pod, const std::vector<std::string>& names) {
    std::string out;
    summary_ = decisions_.filter(args(pod, names), out);
    return boost::json::parse(out).as_object();
  }

  std::vector<std::string> filter_best(const alloc::PodSpec& pod, const std::vector<std::string>& names,
                                       std::int64_t step = 128) {
    std::string out;
    summary_ = decisions_.filter_best(args(pod, names), step, out);
    std::vector<std::string> best;
    const boost::json::value reply = boost::json::parse(out);
    for (const auto& name : reply.at("NodeNames").as_array()) {
      best.emplace_back(name.as_string());
    }
    return best;
  }

  std::map<std::string, std::int64_t> prioritize(const alloc::PodSpec& pod,
                                                 const std::vector<std::string>& names) {
    std::string out;
    decisions_.prioritize(args(pod, names), 128, out);
    std::map<std::string, std::int64_t> scores;
    const boost::json::value parsed = boost::json::parse(out);
    for (const auto& entry : parsed.as_array()) {
      scores[std::string(entry.at("Host").as_string())] = entry.at("Score").as_int64();
    }
    return scores;
  }

  boost::json::object preempt(const alloc::PodSpec& pod, std::vector<NodeVictims> nodes) {
    PreemptArgs made{.pod = pod, .nodes = std::move(nodes)};
    std::string out;
    decisions_.preempt(made, out);
    return boost::json::parse(out).as_object().at("NodeNameToMetaVictims").as_object();
  }

  static NodeVictims victims(const std::string& node, const std::vector<std::string>& pods,
                             std::int64_t pdb = 0) {
    NodeVictims made{.node = node, .pods = {}, .pdb_violations = pdb};
    for (const std::string& pod : pods) {
      made.pods.push_back({.uid = "uid-" + pod});
    }
    return made;
  }

  static std::vector<std::string> uids(const boost::json::value& node) {
    std::vector<std::string> all;
    for (const auto& pod : node.at("Pods").as_array()) {
      all.emplace_back(pod.at("UID").as_string());
    }
    return all;
  }

  json::PaddedBuffer body_;
  ClusterState state_{{}};
  NodeLists lists_{state_.node_index()};
  Decisions decisions_{state_};
  Decisions::FilterSummary summary_;
};

TEST_F(DecisionsTest, FilterReturnsNodesThatFitAndReasonsForTheOthers) {
  bound("a", "big", 0, 30);
  bound("b", "big", 1, 30);
  const boost::json::object reply = filter(pod_of("p", {container("main", 8)}), {"big", "small", "unknown"});
  EXPECT_EQ(boost::json::serialize(reply.at("NodeNames")), R"(["small"])");
  EXPECT_TRUE(reply.at("Nodes").is_null());
  EXPECT_EQ(reply.at("Error").as_string(), "");
  EXPECT_EQ(reply.at("FailedNodes").at("big").as_string(),
            "no single GPU has 8GiB free (tessera why pod/p -n ml)");
  EXPECT_EQ(reply.at("FailedAndUnresolvableNodes").at("unknown").as_string(),
            "node is not known to Tessera yet");
}

TEST_F(DecisionsTest, FilterBestReturnsTheNodesThatPrioritizeRanksFirst) {
  bound("a", "small", 0, 4);
  const alloc::PodSpec pod = pod_of("p", {container("main", 4)});
  const auto scores = prioritize(pod, {"big", "small"});
  ASSERT_GT(scores.at("small"), scores.at("big"));
  EXPECT_THAT(filter_best(pod, {"big", "small", "unknown"}), ElementsAre("small"));
  EXPECT_EQ(summary_.fit, 2U);
  EXPECT_EQ(summary_.unresolvable, 1U);
  EXPECT_THAT(filter_best(pod, {"big"}), ElementsAre("big")) << "it is the only node of the request";
}

TEST_F(DecisionsTest, FilterBestKeepsANodeThatPluginScoresCouldMakeTheBest) {
  bound("a", "small", 0, 4);
  const alloc::PodSpec pod = pod_of("p", {container("main", 4)});
  EXPECT_THAT(filter_best(pod, {"big", "small"}, /*step=*/121), ElementsAre("small"));
  EXPECT_THAT(filter_best(pod, {"big", "small"}, /*step=*/120), ElementsAre("big", "small"));
}

TEST_F(DecisionsTest, FilterBestReturnsAHundredOfManyEqualNodes) {
  std::vector<std::string> names;
  for (int i = 0; i < 150; ++i) {
    names.push_back("equal-" + std::to_string(i));
    node(names.back(), {16});
  }
  EXPECT_EQ(filter_best(pod_of("p", {container("main", 8)}), names).size(), 100U);
  EXPECT_EQ(summary_.fit, 150U);
}

TEST_F(DecisionsTest, FilterBestReportsTheSameReasonsAsFilter) {
  const alloc::PodSpec pod = pod_of("p", {container("main", 64)});
  std::string best;
  decisions_.filter_best(args(pod, {"big", "small"}), 128, best);
  std::string all;
  decisions_.filter(args(pod, {"big", "small"}), all);
  EXPECT_EQ(best, all);
}

TEST_F(DecisionsTest, ReportsNodesAsUnresolvableIfEvictionCannotHelp) {
  const boost::json::object reply = filter(pod_of("p", {container("main", 16)}), {"small", "big"});
  EXPECT_EQ(boost::json::serialize(reply.at("NodeNames")), R"(["big"])");
  EXPECT_EQ(reply.at("FailedAndUnresolvableNodes").at("small").as_string(), "no GPU is as large as 16GiB");
  EXPECT_TRUE(reply.at("FailedNodes").as_object().empty());
}

TEST_F(DecisionsTest, ReasonsContainNoNumbersOfTheNode) {
  for (int i = 0; i < 50; ++i) {
    node(fmt::format("n{}", i), {16});
    bound(fmt::format("p{}", i), fmt::format("n{}", i), 0, 9U + static_cast<unsigned>(i) % 7);
  }
  std::vector<std::string> names;
  for (int i = 0; i < 50; ++i) {
    names.push_back(fmt::format("n{}", i));
  }
  const boost::json::object reply = filter(pod_of("p", {container("main", 8)}), names);
  std::set<std::string> phrases;
  for (const auto& [node, phrase] : reply.at("FailedNodes").as_object()) {
    phrases.emplace(phrase.as_string());
  }
  EXPECT_EQ(reply.at("FailedNodes").as_object().size(), 50U);
  EXPECT_EQ(phrases.size(), 1U);
}

TEST_F(DecisionsTest, NamesTheNearestNodeIfNoneFits) {
  bound("a", "big", 0, 30);
  bound("b", "big", 1, 25);
  filter(pod_of("p", {container("main", 8)}), {"big"});
  EXPECT_EQ(summary_.fit, 0U);
  EXPECT_THAT(summary_.nearest, HasSubstr("7GiB"));
}

TEST_F(DecisionsTest, DoesNotNameANodeWithOtherGpuModelsAsNearest) {
  node("t4", {16});
  bound("a", "t4", 0, 12);
  alloc::PodSpec pod = pod_of("p", {container("main", 8)});
  pod.annotations["tessera.io/gpu-model"] = "T4";
  filter(pod, {"big", "t4"});
  EXPECT_EQ(summary_.fit, 0U);
  EXPECT_THAT(summary_.nearest, HasSubstr("4GiB of 16GiB; 4GiB more is needed"));
}

TEST_F(DecisionsTest, RejectsAllNodesForAnInvalidPodAndReportsWhy) {
  alloc::PodSpec pod = pod_of("p", {container("main", 8)});
  pod.annotations["tessera.io/policy"] = "lucky";
  const boost::json::object reply = filter(pod, {"big", "small"});
  EXPECT_TRUE(reply.at("NodeNames").as_array().empty());
  EXPECT_THAT(std::string(reply.at("FailedAndUnresolvableNodes").at("big").as_string()), HasSubstr("lucky"));
}

TEST_F(DecisionsTest, FindsNodesInAnyOrderOfNames) {
  std::vector<std::string> names;
  for (int i = 0; i < 300; ++i) {
    names.push_back(fmt::format("m{:03}", i));
    node(names.back(), {static_cast<std::uint32_t>(i % 2 == 0 ? 16 : 4)});
  }
  const alloc::PodSpec pod = pod_of("p", {container("main", 8)});
  for (int round = 0; round < 6; ++round) {
    std::rotate(names.begin(), names.begin() + 37, names.end());
    if (round % 2 == 1) {
      std::ranges::reverse(names);
    }
    const boost::json::object reply = filter(pod, names);
    ASSERT_EQ(reply.at("NodeNames").as_array().size(), 150U);
    for (const auto& name : reply.at("NodeNames").as_array()) {
      ASSERT_EQ((name.as_string()[3] - '0') % 2, 0) << name;
    }
  }
}

TEST_F(DecisionsTest, AnswersNodeObjectsWithNodeObjects) {
  NodeArgs made = args(pod_of("p", {container("main", 16)}), {"big", "small"});
  made.names_only = false;
  json::PaddedBuffer body(R"({"metadata":{"name":"big"}},{"metadata":{"name":"small"}})");
  const std::string_view objects = body.view().text();
  made.objects = {objects.substr(0, 27), objects.substr(28)};
  std::string out;
  decisions_.filter(made, out);
  const boost::json::value reply = boost::json::parse(out);
  EXPECT_EQ(boost::json::serialize(reply.at("Nodes").at("items")), R"([{"metadata":{"name":"big"}}])");
  EXPECT_TRUE(reply.at("NodeNames").is_null());
  EXPECT_TRUE(reply.at("FailedAndUnresolvableNodes").as_object().contains("small"));
}

TEST_F(DecisionsTest, ExcludesANodeWithAnotherDevicePlugin) {
  alloc::NodeSpec node = node_of("both", {32});
  node.nvidia_gpus = 1;
  state_.keep_node(node);
  const boost::json::object reply = filter(pod_of("p", {container("main", 8)}), {"both"});
  EXPECT_EQ(reply.at("FailedAndUnresolvableNodes").at("both").as_string(),
            "another device plugin allocates the same GPUs");
  bound("low", "both", 0, 32);
  EXPECT_TRUE(preempt(pod_of("p", {container("main", 8)}), {victims("both", {"low"})}).empty())
      << "no eviction can help there";
  state_.forget_pod("uid-low");
  node.nvidia_gpus = 0;
  state_.keep_node(node);
  EXPECT_EQ(filter(pod_of("p", {container("main", 8)}), {"both"}).at("NodeNames").as_array().size(), 1U);

  // The same if its agent reports it, also for GPUs that no pod uses.
  alloc::Inventory inventory = alloc::testing::inventory_of("both", {32, 32});
  inventory.also_served_as = {"example.com/gpu"};
  inventory.gpus[0].unhealthy = "pod x/y has it through example.com/gpu of another device plugin";
  state_.keep_node(alloc::testing::node_with("both", inventory));
  EXPECT_EQ(filter(pod_of("p", {container("main", 8)}), {"both"})
                .at("FailedAndUnresolvableNodes")
                .at("both")
                .as_string(),
            "another device plugin allocates the same GPUs");
}

// A pod of more than max_object_bytes, whose claims the extender has never read.
TEST_F(DecisionsTest, ExcludesANodeWithAPodThatCannotBeRead) {
  PodSink pods(state_, [] {});
  const kube::ObjectMeta huge{
      .namespace_name = "ml", .name = "huge", .uid = "uid-huge", .version = 7, .node_name = "big"};
  pods.unreadable(huge, Error(ErrorCode::kExhausted, "it is larger than 10 bytes"));
  const boost::json::object reply = filter(pod_of("p", {container("main", 8)}), {"big", "small"});
  EXPECT_EQ(reply.at("FailedAndUnresolvableNodes").at("big").as_string(), "a pod on the node cannot be read");
  EXPECT_EQ(reply.at("NodeNames").as_array().size(), 1U);
  pods.forget(huge);
  EXPECT_EQ(filter(pod_of("p", {container("main", 8)}), {"big"}).at("NodeNames").as_array().size(), 1U);
}

TEST_F(DecisionsTest, DoesNotCountAPodWithALimitOfZeroAsWaiting) {
  alloc::PodSpec none = pod_of("none", {container("main", 1)});
  none.containers[0].gpu_limits[0].second = Quantity();
  state_.keep_pod(none);
  EXPECT_NE(state_.find_waiting("uid-none"), nullptr) << "kube-scheduler still asks to bind it";
  EXPECT_EQ(state_.waiting_pods(), 0U);
  state_.keep_pod(pod_of("some", {container("main", 1)}));
  state_.keep_pod(pod_of("some", {container("main", 1)}));
  EXPECT_EQ(state_.waiting_pods(), 1U);
  state_.forget_pod("uid-none");
  bound("some", "big", 0, 1);
  EXPECT_EQ(state_.waiting_pods(), 0U);
}

// The annotations of a Binding are merged into those of the pod. A pod with too many of them can
// never be updated again.
TEST_F(DecisionsTest, FilterRejectsAPodWhoseAnnotationsLeaveNoSpaceForARecord) {
  NodeArgs made = args(pod_of("p", {container("main", 8)}), {"small", "big"});
  made.annotation_bytes = 240U << 10U;
  std::string out;
  EXPECT_EQ(decisions_.filter(made, out).fit, 2U);
  made.annotation_bytes += 1;
  out.clear();
  EXPECT_EQ(decisions_.filter(made, out).fit, 0U);
  EXPECT_THAT(out, HasSubstr("the pod's annotations have 245761 bytes"));
}

TEST_F(DecisionsTest, PrioritizeScoresTheBestNodeHighestAndOnlyEqualChoicesEqually) {
  bound("a", "big", 0, 24);
  node("empty", {32, 32});
  const auto scores = prioritize(pod_of("p", {container("main", 8)}), {"small", "empty", "big", "unknown"});
  EXPECT_GT(scores.at("big"), scores.at("empty"));
  EXPECT_GT(scores.at("big"), 0);
  EXPECT_EQ(scores.at("unknown"), 0);
  // More than the sum of all scores of kube-scheduler's own plugins, after its factor of ten.
  EXPECT_GE((scores.at("big") - scores.at("empty")) * 10, 1200);
}

TEST_F(DecisionsTest, PrioritizeGivesZeroToNodesThatNoLongerFit) {
  bound("a", "small", 0, 8);
  bound("b", "small", 1, 8);
  const auto scores = prioritize(pod_of("p", {container("main", 8)}), {"small", "big"});
  EXPECT_EQ(scores.at("small"), 0);
  EXPECT_EQ(scores.at("big"), 128);
}

TEST_F(DecisionsTest, PreemptKeepsOnlyTheVictimsThatFreeTheGpu) {
  bound("a", "small", 0, 8);
  bound("b", "small", 1, 4);
  bound("c", "small", 1, 4);
  const auto nodes = preempt(pod_of("p", {container("main", 8)}), {victims("small", {"a", "b", "c"}, 2)});
  ASSERT_TRUE(nodes.contains("small"));
  EXPECT_EQ(uids(nodes.at("small")), std::vector<std::string>{"uid-a"});
  EXPECT_EQ(nodes.at("small").at("NumPDBViolations").as_int64(), 1);
}

TEST_F(DecisionsTest, PreemptDropsNodesWhereEvictionWouldNotHelp) {
  bound("a", "small", 0, 4);
  bound("b", "small", 1, 4);
  bound("c", "small", 0, 4);
  bound("d", "small", 1, 4);
  // Eight units in total, but not on one GPU.
  const auto nodes =
      preempt(pod_of("p", {container("main", 8)}), {victims("small", {"a", "b"}), victims("unknown", {"x"})});
  EXPECT_TRUE(nodes.empty());
}

TEST_F(DecisionsTest, PreemptPrefersLowerPriorityAmongEquallyManyVictims) {
  bound("a", "small", 0, 8, 500);
  bound("b", "small", 1, 8, 100);
  const auto nodes = preempt(pod_of("p", {container("main", 8)}), {victims("small", {"a", "b"})});
  EXPECT_EQ(uids(nodes.at("small")), std::vector<std::string>{"uid-b"});
}

TEST_F(DecisionsTest, PreemptWithManyVictimsSparesMostOfThem) {
  node("many", {16});
  std::vector<std::string> names;
  for (int i = 0; i < 16; ++i) {
    names.push_back(fmt::format("v{}", i));
    bound(names.back(), "many", 0, 1, i);
  }
  const auto nodes = preempt(pod_of("p", {container("main", 4)}), {victims("many", names)});
  const std::vector<std::string> gone = uids(nodes.at("many"));
  EXPECT_EQ(gone.size(), 4U);
  EXPECT_THAT(gone, ::testing::UnorderedElementsAre("uid-v0", "uid-v1", "uid-v2", "uid-v3"));
}

TEST_F(DecisionsTest, PreemptKeepsVictimsWithoutGpus) {
  bound("a", "small", 0, 8);
  alloc::PodSpec plain = pod_of("plain", {});
  plain.node_name = "small";
  state_.keep_pod(plain);
  const auto nodes = preempt(pod_of("p", {container("main", 8)}), {victims("small", {"plain", "a"})});
  EXPECT_THAT(uids(nodes.at("small")), ::testing::Contains("uid-plain"));
}

// When kube-scheduler compares nodes, it treats the first victim as the most important one.
TEST_F(DecisionsTest, PreemptKeepsTheOrderOfVictims) {
  bound("a", "small", 0, 8, 500);
  bound("b", "small", 1, 8, 500);
  alloc::PodSpec plain = pod_of("plain", {});
  plain.node_name = "small";
  plain.priority = 10;
  state_.keep_pod(plain);
  const auto nodes = preempt(pod_of("p", {container("main", 8)}), {victims("small", {"a", "b", "plain"})});
  EXPECT_THAT(uids(nodes.at("small")), ElementsAre("uid-b", "uid-plain"));
}

TEST_F(DecisionsTest, PreemptListsItsOwnVictimsByPriority) {
  bound("a", "small", 0, 4, 10);
  bound("b", "small", 0, 4, 30);
  bound("c", "small", 1, 8, 500);
  alloc::PodSpec pod = pod_of("p", {container("main", 8)});
  pod.priority = 100;
  const auto nodes = preempt(pod, {victims("small", {})});
  ASSERT_TRUE(nodes.contains("small"));
  EXPECT_THAT(uids(nodes.at("small")), ElementsAre("uid-b", "uid-a"));
  EXPECT_EQ(nodes.at("small").at("NumPDBViolations").as_int64(), 2);
}

TEST_F(DecisionsTest, PreemptEvictsOneLargePodInsteadOfManySmallOnes) {
  node("two", {16, 16});
  bound("a-big", "two", 0, 16);
  std::vector<std::string> names{"a-big"};
  for (int i = 0; i < 16; ++i) {
    names.push_back(fmt::format("v{}", i));
    bound(names.back(), "two", 1, 1);
  }
  for (const auto& wanted : {container("main", 16), container("main", 0, 1)}) {
    const auto nodes = preempt(pod_of("p", {wanted}), {victims("two", names)});
    EXPECT_THAT(uids(nodes.at("two")), ElementsAre("uid-a-big"));
  }
}

TEST_F(DecisionsTest, PreemptKeepsVictimsIfThePodNeedsNoneOfTheirGpus) {
  // The pod fits according to the ledger, so kube-scheduler must need something else, for example a
  // port.
  bound("a", "small", 0, 4);
  bound("b", "small", 1, 2);
  const auto nodes = preempt(pod_of("p", {container("main", 4)}), {victims("small", {"a", "b"}, 1)});
  ASSERT_TRUE(nodes.contains("small"));
  EXPECT_EQ(uids(nodes.at("small")), (std::vector<std::string>{"uid-a", "uid-b"}));
  EXPECT_EQ(nodes.at("small").at("NumPDBViolations").as_int64(), 1);
}

// Pod `a` has the port that the pod needs, and `plain` the CPU. Without `plain` the pod fits
// according to the ledger, which does not know ports.
TEST_F(DecisionsTest, PreemptKeepsAGpuVictimThatIsNeededForAnotherReason) {
  bound("a", "small", 0, 4);
  alloc::PodSpec plain = pod_of("plain", {container("main", 0)});
  plain.node_name = "small";
  plain.containers[0].cpu_milli = 60'000;
  state_.keep_pod(plain);
  alloc::PodSpec pod = pod_of("p", {container("main", 4)});
  pod.containers[0].cpu_milli = 10'000;
  const auto nodes = preempt(pod, {victims("small", {"a", "plain"}, 1)});
  ASSERT_TRUE(nodes.contains("small"));
  EXPECT_THAT(uids(nodes.at("small")), ElementsAre("uid-a", "uid-plain"));
  EXPECT_EQ(nodes.at("small").at("NumPDBViolations").as_int64(), 1);
}

TEST_F(DecisionsTest, PreemptEvictsTheMostRecentOfEqualPods) {
  bound("a", "small", 0, 8);
  bound("b", "small", 1, 8);
  const auto nodes = preempt(pod_of("p", {container("main", 8)}), {victims("small", {"a", "b"})});
  EXPECT_EQ(uids(nodes.at("small")), std::vector<std::string>{"uid-b"});
}

TEST_F(DecisionsTest, PreemptChoosesVictimsItselfIfThePodFitsOnlyByTotalResources) {
  bound("a", "small", 0, 4, 50);
  bound("b", "small", 1, 4, 20);
  bound("c", "small", 1, 1, 500);
  alloc::PodSpec pod = pod_of("p", {container("main", 7)});
  pod.priority = 100;
  // Seven units are free, four and three. Of a and b, only b shares a GPU with c, which has a
  // higher priority.
  const auto nodes = preempt(pod, {victims("small", {})});
  ASSERT_TRUE(nodes.contains("small"));
  EXPECT_EQ(uids(nodes.at("small")), std::vector<std::string>{"uid-b"});
  EXPECT_EQ(nodes.at("small").at("NumPDBViolations").as_int64(), 1) << "b may have a budget";
  pod.priority = 20;
  EXPECT_TRUE(preempt(pod, {victims("small", {})}).empty()) << "no pod has a lower priority";
}

TEST_F(DecisionsTest, PreemptSparesPodsThatABudgetProtects) {
  bound("a", "small", 0, 8, 0, "web");
  bound("b", "small", 1, 8, 7, "batch");
  alloc::PodSpec pod = pod_of("p", {container("main", 8)});
  pod.priority = 100;
  budget("web", 0);
  for (const std::vector<std::string>& named : {std::vector<std::string>{"b", "a"}, {}}) {
    const auto nodes = preempt(pod, {victims("small", named)});
    EXPECT_EQ(uids(nodes.at("small")), std::vector<std::string>{"uid-b"})
        << "the unprotected pod is evicted, although its priority is higher";
    EXPECT_EQ(nodes.at("small").at("NumPDBViolations").as_int64(), 0);
  }
  budget("web", 1);
  EXPECT_EQ(uids(preempt(pod, {victims("small", {"b", "a"})}).at("small")),
            std::vector<std::string>{"uid-a"});
  budget("web", 0);
  budget("batch", 0);
  const auto both = preempt(pod, {victims("small", {"b", "a"}, 1)});
  EXPECT_EQ(uids(both.at("small")), std::vector<std::string>{"uid-a"}) << "one pod must be evicted";
  EXPECT_EQ(both.at("small").at("NumPDBViolations").as_int64(), 1);
}

TEST_F(DecisionsTest, PreemptEvictsTwoAllowedPodsInsteadOfOneProtectedPod) {
  bound("a", "small", 0, 8, 0, "web");
  bound("b", "small", 1, 4);
  bound("c", "small", 1, 4);
  budget("web", 0);
  const auto nodes = preempt(pod_of("p", {container("main", 8)}), {victims("small", {"a", "b", "c"}, 1)});
  EXPECT_EQ(uids(nodes.at("small")), (std::vector<std::string>{"uid-b", "uid-c"}));
  EXPECT_EQ(nodes.at("small").at("NumPDBViolations").as_int64(), 0);
}

TEST_F(DecisionsTest, PreemptSparesPodsThatABudgetProtectsAmongMany) {
  node("many", {10, 10});
  std::vector<std::string> names;
  for (unsigned i = 0; i < 20; ++i) {
    names.push_back(fmt::format("m{}", i));
    bound(names.back(), "many", i / 10, 1, 0, i >= 10 ? "web" : "");
  }
  budget("web", 0);
  const auto nodes = preempt(pod_of("p", {container("main", 4)}), {victims("many", names, 10)});
  EXPECT_EQ(uids(nodes.at("many")).size(), 4U);
  EXPECT_EQ(nodes.at("many").at("NumPDBViolations").as_int64(), 0);
}

TEST_F(DecisionsTest, PreemptKeepsTheViolationCountOfPodsWithoutGpus) {
  alloc::PodSpec plain = pod_of("plain", {container("main", 0)});
  plain.node_name = "small";
  state_.keep_pod(plain);
  bound("a", "small", 0, 8);
  bound("b", "small", 1, 8);
  budget("web", 0);
  const auto nodes = preempt(pod_of("p", {container("main", 8)}), {victims("small", {"plain", "a", "b"}, 1)});
  EXPECT_EQ(uids(nodes.at("small")), (std::vector<std::string>{"uid-plain", "uid-b"}));
  EXPECT_EQ(nodes.at("small").at("NumPDBViolations").as_int64(), 1);
}

TEST_F(DecisionsTest, PreemptEvictsNoPodIfNoneIsProposedAndThePodFits) {
  bound("a", "small", 0, 4);
  alloc::PodSpec pod = pod_of("p", {container("main", 8)});
  pod.priority = 100;
  EXPECT_TRUE(preempt(pod, {victims("small", {})}).empty());
}

TEST_F(DecisionsTest, AFreeUnhealthyGpuDoesNotRuleOutPreemptionOnOtherGpus) {
  alloc::Inventory inventory = alloc::testing::inventory_of("mixed", {16, 16});
  inventory.gpus[0].unhealthy = "XID 79";
  state_.keep_node(alloc::testing::node_with("mixed", inventory));
  bound("a", "mixed", 1, 16);
  for (const alloc::PodSpec& pod :
       {pod_of("p", {container("main", 8)}), pod_of("w", {container("main", 0, 1)})}) {
    const boost::json::object reply = filter(pod, {"mixed"});
    EXPECT_TRUE(reply.at("FailedNodes").as_object().contains("mixed")) << boost::json::serialize(reply);
  }
  // While one GPU is unhealthy, no eviction makes two whole GPUs free.
  state_.forget_pod("uid-a");
  const boost::json::object reply = filter(pod_of("q", {container("main", 0, 2)}), {"mixed"});
  EXPECT_TRUE(reply.at("FailedAndUnresolvableNodes").as_object().contains("mixed"));
}

TEST_F(DecisionsTest, SkipsGpusThatTheOriginalListsAsUnhealthy) {
  alloc::NodeSpec old;
  old.name = "old";
  old.gpu_memory_units = 32;
  old.gpu_count = 2;
  const auto fits = [&] {
    return !filter(pod_of("p", {container("main", 16)}), {"old"}).at("NodeNames").as_array().empty();
  };
  state_.keep_unhealthy("old", "0,1");  // before the node is known
  state_.keep_node(old);
  EXPECT_FALSE(fits());
  state_.keep_node(old);  // as the watch reports it repeatedly
  EXPECT_FALSE(fits());
  state_.keep_unhealthy("old", "1");
  EXPECT_TRUE(fits());
  state_.keep_unhealthy("old", "0,1");
  EXPECT_FALSE(fits());
  state_.keep_unhealthy("old", "");
  EXPECT_TRUE(fits());
  state_.keep_unhealthy("old", "0,1");
  state_.forget_node("old");
  state_.keep_unhealthy("big", "0,1");
  EXPECT_FALSE(filter(pod_of("p", {container("main", 16)}), {"big"}).at("NodeNames").as_array().empty())
      << "with an agent, only its inventory counts";
}

// All sizes are even and each GPU has an odd number of units, so that no packing exists. The search
// cannot show that within its limit.
TEST_F(DecisionsTest, PreemptEvictsNothingIfTheSearchEndsAtItsLimit) {
  std::vector<alloc::ContainerSpec> containers;
  for (const int size :
       {18, 16, 16, 14, 14, 12, 12, 12, 10, 10, 10, 8, 8, 8, 6, 6, 6, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2}) {
    containers.push_back(container(fmt::format("c{}", containers.size()), size));
  }
  alloc::PodSpec pod = pod_of("p", std::move(containers));
  pod.annotations["tessera.io/placement"] = "per-container";
  PreemptArgs made{.pod = pod, .nodes = {}};
  for (int i = 0; i < 20; ++i) {
    const std::string name = fmt::format("odd{}", i);
    node(name, {21, 23, 25, 27, 29, 31, 33, 35});
    bound(fmt::format("v{}", i), name, 0, 2);
    made.nodes.push_back(victims(name, {fmt::format("v{}", i)}));
  }
  std::string out;
  const Decisions::PreemptSummary summary = decisions_.preempt(made, out);
  EXPECT_EQ(out, R"({"NodeNameToMetaVictims":{}})");
  EXPECT_TRUE(summary.search_ended);
  filter(pod, {"odd0"});
  EXPECT_TRUE(summary_.search_ended);
}

TEST_F(DecisionsTest, PreemptDoesNotChangeTheLedger) {
  bound("a", "small", 0, 8);
  preempt(pod_of("p", {container("main", 8)}), {victims("small", {"a"})});
  const auto id = *state_.ledger().find_node("small");
  EXPECT_EQ(state_.ledger().view(id).free[0], 0U);
  EXPECT_EQ(state_.ledger().view(id).free[1], 8U);
}

}  // namespace
}  // namespace tessera::extender
