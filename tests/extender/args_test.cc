#include "extender/args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"

namespace tessera::extender {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kPod =
    R"({"metadata":{"name":"train-7","namespace":"ml","uid":"u7","annotations":{"tessera.io/policy":"spread","x":"y"}},)"
    R"("spec":{"priority":7,"containers":[{"name":"main","resources":{"limits":{"aliyun.com/gpu-mem":"8","cpu":"2"}}}]}})";

class Args : public ::testing::Test {
 protected:
  json::PaddedView body(const std::string& text) {
    buffer_ = json::PaddedBuffer(text);
    return buffer_.view();
  }

  static std::vector<std::string> names(const NodeArgs& args) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < args.size(); ++i) {
      all.emplace_back(args.quoted(i, i + 1));
    }
    return all;
  }

  json::PaddedBuffer buffer_;
  NodeIndex index_;
  ArgsReader reader_{alloc::ResourceNames(), index_};
};

TEST_F(Args, ReadsPodAndNames) {
  const auto args = reader_.node_args(
      body(std::string(R"({"Pod":)") + kPod + R"(,"Nodes":null,"NodeNames":["a", "b\u002dc"]})"));
  ASSERT_TRUE(args) << args.error().text();
  EXPECT_EQ((*args)->pod.name, "train-7");
  EXPECT_EQ((*args)->pod.uid, "u7");
  EXPECT_EQ((*args)->pod.priority, 7);
  EXPECT_EQ((*args)->pod.annotations.size(), 1U);
  EXPECT_TRUE((*args)->names_only);
  EXPECT_THAT(names(**args), ElementsAre(R"("a")", R"("b-c")"));
}

// Names at the end of the body are parsed separately. The result must be the same.
TEST_F(Args, ReadsTheSameNamesAtAnyPositionInTheBody) {
  index_.put("a", alloc::NodeId{4});
  index_.put("b-c", alloc::NodeId{2});
  const std::string pod = kPod;
  for (
      const std::string& text :
      {R"({"Pod":)" + pod + R"(,"Nodes":null,"NodeNames":["a","b-c","x"]})",
       R"({"Pod":)" + pod + R"(,"Nodes":null,"NodeNames":["\u0061","b\u002dc","x"]})",
       R"({"Pod":)" + pod + R"(,"Nodes":null,"NodeNames": [ "a", "b-c", "x" ] })",
       R"({"NodeNames":["a","b-c","x"],"Pod":)" + pod + "}",
       R"({"NodeNames":["other"],"Pod":)" + pod + R"(,"NodeNames":["a","b-c","x"]})",
       R"({"Nodes":{"items":[{"metadata":{"name":"other"}}]},"Pod":)" + pod +
           R"(,"NodeNames":["a","b-c","x"]})",
       R"({"Pod":)" + pod +
           R"(,"Nodes":{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b-c"}},{"metadata":{"name":"x"}}]}})"}) {
    const auto args = reader_.node_args(body(text));
    ASSERT_TRUE(args) << text << args.error().text();
    EXPECT_THAT(names(**args), ElementsAre(R"("a")", R"("b-c")", R"("x")")) << text;
    EXPECT_THAT((*args)->nodes->ids(), ElementsAre(alloc::NodeId{4}, alloc::NodeId{2}, kUnknownNode)) << text;
    EXPECT_EQ((*args)->nodes->unknown(), 1U);
    EXPECT_EQ((*args)->pod.uid, "u7");
  }
}

// Annotations of a pod may contain any text, even text that looks like the end of a body.
TEST_F(Args, IgnoresNamesInsideOfStrings) {
  const auto args = reader_.node_args(body(
      R"({"NodeNames":["a"],"Pod":{"metadata":{"name":"p","uid":"u","annotations":{"x":",\"NodeNames\":[\"evil\"]}"}}}})"));
  ASSERT_TRUE(args) << args.error().text();
  EXPECT_THAT(names(**args), ElementsAre(R"("a")"));
  // The same key in a nested object, at the end.
  EXPECT_FALSE(reader_.node_args(body(R"({"Pod":{"metadata":{"uid":"u"},"NodeNames":["evil"]}})")));
  EXPECT_FALSE(
      reader_.node_args(body(R"({"Pod":{"metadata":{"uid":"u"},"x":{"y":1,"NodeNames":["evil"]}}})")));
}

TEST_F(Args, AcceptsKeysInAnyCaseAndOrder) {
  for (const char* key : {"nodenames", "NODENAMES", "nodeNames"}) {
    const auto args = reader_.node_args(body(std::string(R"({")") + key + R"(":["a"],"nodes":null,"pod":)" +
                                             kPod + R"(,"Other":{"deep":[1,2]}})"));
    ASSERT_TRUE(args) << args.error().text();
    EXPECT_THAT(names(**args), ElementsAre(R"("a")"));
  }
}

TEST_F(Args, ReadsWholeNodesAndKeepsTheirText) {
  const auto args = reader_.node_args(body(
      std::string(R"({"Pod":)") + kPod +
      R"(,"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a"},"x":1}, {"y":{},"metadata":{"labels":{},"name":"b"}}]},"NodeNames":null})"));
  ASSERT_TRUE(args) << args.error().text();
  EXPECT_FALSE((*args)->names_only);
  EXPECT_THAT(names(**args), ElementsAre(R"("a")", R"("b")"));
  EXPECT_THAT((*args)->objects, ElementsAre(R"({"metadata":{"name":"a"},"x":1})",
                                            R"({"y":{},"metadata":{"labels":{},"name":"b"}})"));
}

TEST_F(Args, AcceptsAnEmptyListOfNames) {
  const auto args = reader_.node_args(body(std::string(R"({"Pod":)") + kPod + R"(,"NodeNames":[]})"));
  ASSERT_TRUE(args) << args.error().text();
  EXPECT_EQ((*args)->size(), 0U);
}

TEST_F(Args, RejectsBodiesThatAreNotCallsOfKubeScheduler) {
  for (
      const char* text :
      {"",
       "{",
       "[]",
       "null",
       "{}",
       R"({"Pod":3,"NodeNames":[]})",
       R"({"Pod":{},"NodeNames":[3]})",
       R"({"Pod":{},"NodeNames":{}})",
       R"({"Pod":{}})",
       R"({"NodeNames":["a"]})",
       R"({"Pod":{},"NodeNames":["a"]} x)",
       R"({"Pod":{},"NodeNames":["a")",
       R"({"Pod":{},"NodeNames":["a",]})",
       R"({"Pod":{},"NodeNames":["a""b"]})",
       R"({"Pod":{},"NodeNames":[,"a"]})",
       R"({"Pod":{},"NodeNames":["a]})",
       R"(,"NodeNames":["a"]})",
       R"({"Pod":{},"Nodes":{"items":[{"metadata":{"name":""}}]}})",
       R"({"Pod":{},"Nodes":{"items":[{}]}})",
       R"({"Pod":{"spec":{"containers":[{"resources":{"limits":{"aliyun.com/gpu-mem":"x"}}}]}},"NodeNames":[]})"}) {
    EXPECT_FALSE(reader_.node_args(body(text))) << text;
  }
}

// Found by the fuzzer: simdjson's own check for null throws here, and nothing would catch the
// exception.
TEST_F(Args, RejectsValuesThatOnlyBeginLikeNull) {
  for (const char* rest :
       {R"(,"Nodes":nu1l,"NodeNames":["a",}})", R"(,"Nodes":nu1l})", R"(,"NodeNames":nul})"}) {
    EXPECT_FALSE(reader_.node_args(body(std::string(R"({"Pod":)") + kPod + rest))) << rest;
  }
}

TEST_F(Args, CountsTheBytesOfManyAnnotations) {
  const auto pod_with = [](const std::string& text) {
    return R"({"Pod":{"metadata":{"name":"p","labels":{"a":"b"},"annotations":{"key":")" + text +
           R"(","tessera.io/policy":"spread"}},"spec":{}},"NodeNames":["a"]})";
  };
  const std::size_t rest = std::string("keytessera.io/policyspread").size();
  const auto small = reader_.node_args(body(pod_with("x")));
  ASSERT_TRUE(small) << small.error().text();
  EXPECT_EQ((*small)->annotation_bytes, 0U);
  // The length of each in UTF-8.
  for (const auto& [piece, bytes] : {std::pair<const char*, std::size_t>{"x", 1},
                                     {R"(\n)", 1},
                                     {R"(\")", 1},
                                     {R"(\\)", 1},
                                     {R"(\u003c)", 1},
                                     {R"(\u00e9)", 2},
                                     {R"(\u20AC)", 3},
                                     {R"(\ud83d\ude00)", 4},
                                     {"\xc3\xa9", 2}}) {
    std::string text;
    for (int i = 0; i < 200'000; ++i) {
      text += piece;
    }
    const auto args = reader_.node_args(body(pod_with(text)));
    ASSERT_TRUE(args) << args.error().text();
    EXPECT_EQ((*args)->annotation_bytes, 200'000 * bytes + rest) << piece;
    EXPECT_EQ((*args)->pod.annotations.at("tessera.io/policy"), "spread") << "the pod is decoded as usual";
  }
  // An invalid escape does not end the string.
  const auto broken = reader_.node_args(body(pod_with(std::string(200'000, 'x') + R"(\u)")));
  ASSERT_TRUE(broken) << broken.error().text();
  EXPECT_EQ((*broken)->annotation_bytes, 200'001 + rest);
}

TEST_F(Args, ReadsBind) {
  const auto args = reader_.bind_args(body(R"({"podname":"p","PodNamespace":"ml","PodUID":"u","Node":"a"})"));
  ASSERT_TRUE(args) << args.error().text();
  EXPECT_EQ(args->pod, "p");
  EXPECT_EQ(args->namespace_name, "ml");
  EXPECT_EQ(args->uid, "u");
  EXPECT_EQ(args->node, "a");
}

TEST_F(Args, RejectsABindWithoutUid) {
  const auto args = reader_.bind_args(body(R"({"PodName":"p","PodNamespace":"ml","Node":"a"})"));
  ASSERT_FALSE(args);
  EXPECT_THAT(args.error().text(), HasSubstr("PodUID"));
}

TEST_F(Args, ReadsVictimsInBothForms) {
  const auto meta = reader_.preempt_args(body(
      std::string(R"({"Pod":)") + kPod +
      R"(,"NodeNameToVictims":null,"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"v1"},{"UID":"v2"}],"NumPDBViolations":1},"b":{"Pods":null,"NumPDBViolations":0}}})"));
  ASSERT_TRUE(meta) << meta.error().text();
  ASSERT_EQ(meta->nodes.size(), 2U);
  EXPECT_EQ(meta->nodes[0].node, "a");
  EXPECT_EQ(meta->nodes[0].pods.size(), 2U);
  EXPECT_EQ(meta->nodes[0].pods[1].uid, "v2");
  EXPECT_FALSE(meta->nodes[0].pods[1].has_priority);
  EXPECT_EQ(meta->nodes[0].pdb_violations, 1);
  EXPECT_THAT(meta->nodes[1].pods, IsEmpty());

  const auto whole =
      reader_.preempt_args(body(std::string(R"({"Pod":)") + kPod + R"(,"NodeNameToVictims":{"a":{"Pods":[)" +
                                kPod + R"(],"NumPDBViolations":0}},"NodeNameToMetaVictims":null})"));
  ASSERT_TRUE(whole) << whole.error().text();
  ASSERT_EQ(whole->nodes.size(), 1U);
  EXPECT_EQ(whole->nodes[0].pods[0].uid, "u7");
  EXPECT_TRUE(whole->nodes[0].pods[0].has_priority);
  EXPECT_EQ(whole->nodes[0].pods[0].priority, 7);
}

// Every recorded body of real kube-schedulers.
TEST_F(Args, ReadsAllRecordedBodies) {
  const std::filesystem::path captures = std::filesystem::path(TESSERA_SHARED_DATA) / "captures";
  if (!std::filesystem::exists(captures)) {
    GTEST_SKIP() << "no captures at " << captures;
  }
  int read = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(captures)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".request.json")) {
      continue;
    }
    const Result<std::string> text = read_file(entry.path().string());
    ASSERT_TRUE(text) << text.error().text();
    ++read;
    if (name.find("filter") != std::string::npos || name.find("prioritize") != std::string::npos) {
      const auto args = reader_.node_args(body(*text));
      ASSERT_TRUE(args) << entry.path() << ": " << args.error().text();
      EXPECT_GT((*args)->size(), 0U) << entry.path();
      EXPECT_FALSE((*args)->pod.uid.empty()) << entry.path();
    } else if (name.find("bind") != std::string::npos) {
      const auto args = reader_.bind_args(body(*text));
      ASSERT_TRUE(args) << entry.path() << ": " << args.error().text();
    } else {
      const auto args = reader_.preempt_args(body(*text));
      ASSERT_TRUE(args) << entry.path() << ": " << args.error().text();
      EXPECT_EQ(args->nodes.size(), 2U) << entry.path();
      EXPECT_EQ(args->nodes[0].pods.size(), 1U) << entry.path();
    }
  }
  EXPECT_GT(read, 20);
}

}  // namespace
}  // namespace tessera::extender
