#include "webhook/review.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/file.h"
#include "kube/base64.h"

namespace tessera::webhook {
namespace {

using boost::json::object;
using boost::json::value;
using ::testing::HasSubstr;

const ReviewRules kRules{.names = {}, .scheduler_name = "tessera-scheduler"};

object review_of(value pod_spec) {
  return {{"apiVersion", "admission.k8s.io/v1"},
          {"kind", "AdmissionReview"},
          {"request", object{{"uid", "705ab4f5-6393-11e8-b7cc-42010a800002"},
                             {"kind", object{{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
                             {"namespace", "ml"},
                             {"operation", "CREATE"},
                             {"object", object{{"metadata", object{{"generateName", "train-"}}},
                                               {"spec", std::move(pod_spec)}}}}}};
}

value gpu_spec() {
  return boost::json::parse(
      R"({"containers":[{"name":"main","resources":{"limits":{"aliyun.com/gpu-mem":"3"}}}]})");
}

Review answer(const object& review, const ReviewRules& rules = kRules) {
  Result<Review> made = answer_review(boost::json::serialize(review), rules);
  EXPECT_TRUE(made) << made.error().text();
  return made ? *std::move(made) : Review{};
}

// Returns the decoded patch; null if there is none.
value patch_of(const Review& review) {
  const value document = boost::json::parse(review.answer);
  const object& response = document.at("response").as_object();
  EXPECT_EQ(document.at("apiVersion"), "admission.k8s.io/v1");
  EXPECT_EQ(document.at("kind"), "AdmissionReview");
  EXPECT_EQ(response.at("uid"), "705ab4f5-6393-11e8-b7cc-42010a800002");
  EXPECT_EQ(response.at("allowed"), true) << "a pod was rejected";
  if (!response.contains("patch")) {
    EXPECT_FALSE(response.contains("patchType"));
    return nullptr;
  }
  EXPECT_EQ(response.at("patchType"), "JSONPatch");
  return boost::json::parse(kube::decode_base64(std::string_view(response.at("patch").as_string())).value());
}

// tests/chart/cluster/webhook.sh creates the same pods in a cluster, with the chart's
// MutatingAdmissionPolicy and with the webhook.
TEST(Review, ChangesThePodsThatThePolicyOfTheChartChanges) {
  const value cases = boost::json::parse(read_file(TESSERA_SOURCE_DIR "/tests/webhook/pods.json").value());
  ASSERT_GT(cases.as_array().size(), 10U);
  for (const value& one : cases.as_array()) {
    const bool changed = patch_of(answer(review_of(one.at("spec")))) != value(nullptr);
    EXPECT_EQ(changed, one.at("changed").as_bool()) << one.at("case");
  }
}

TEST(Review, SetsTheConfiguredSchedulerName) {
  const Review review = answer(review_of(gpu_spec()), {.names = {}, .scheduler_name = "gpus"});
  EXPECT_EQ(review.verdict, Review::Verdict::kChanged);
  EXPECT_EQ(review.pod, "ml/train-");
  EXPECT_EQ(patch_of(review),
            boost::json::parse(R"([{"op":"add","path":"/spec/schedulerName","value":"gpus"}])"));
}

TEST(Review, KnowsRenamedResources) {
  const ReviewRules rules{.names = alloc::ResourceNames({.prefix = "example.com", .whole = "nvidia.com/gpu"}),
                          .scheduler_name = "s"};
  EXPECT_EQ(answer(review_of(gpu_spec()), rules).verdict, Review::Verdict::kUnchanged);
  const value whole =
      boost::json::parse(R"({"containers":[{"resources":{"limits":{"nvidia.com/gpu":"1"}}}]})");
  EXPECT_EQ(answer(review_of(whole), rules).verdict, Review::Verdict::kChanged);
}

TEST(Review, AllowsEverythingThatIsNotTheCreationOfAPod) {
  const auto verdict = [](const char* field, value changed) {
    object review = review_of(gpu_spec());
    review["request"].as_object()[field] = std::move(changed);
    const Review made = answer(review);
    EXPECT_EQ(patch_of(made), value(nullptr)) << field;
    return made.verdict;
  };
  EXPECT_EQ(verdict("operation", "UPDATE"), Review::Verdict::kOther);
  EXPECT_EQ(verdict("operation", nullptr), Review::Verdict::kOther);
  EXPECT_EQ(verdict("subResource", "binding"), Review::Verdict::kOther);
  EXPECT_EQ(verdict("kind", object{{"group", "apps"}, {"version", "v1"}, {"kind", "Pod"}}),
            Review::Verdict::kOther);
  EXPECT_EQ(verdict("kind", "Pod"), Review::Verdict::kOther);
  EXPECT_EQ(verdict("object", nullptr), Review::Verdict::kOther);
  EXPECT_EQ(verdict("object", object{{"spec", "x"}}), Review::Verdict::kOther);
}

TEST(Review, AllowsPodsWithUnreadableFields) {
  for (const char* spec : {
           R"({})",
           R"({"containers":null})",
           R"({"containers":{"main":1}})",
           R"({"containers":["main",null,3]})",
           R"({"containers":[{"resources":[]}]})",
           R"({"containers":[{"resources":{"limits":["aliyun.com/gpu-mem"]}}]})",
           R"({"containers":[{"resources":{"limits":{"aliyun.com/gpu-mem":"many"}}}]})",
           R"({"containers":[{"resources":{"limits":{"aliyun.com/gpu-mem":"-3"}}}]})",
           R"({"containers":[{"resources":{"limits":{"aliyun.com/gpu-mem":{}}}}]})",
           R"({"schedulerName":7,"containers":[{"resources":{"limits":{"aliyun.com/gpu-mem":"3"}}}]})",
           R"({"nodeName":[],"containers":[{"resources":{"limits":{"aliyun.com/gpu-mem":"3"}}}]})",
       }) {
    EXPECT_EQ(patch_of(answer(review_of(boost::json::parse(spec)))), value(nullptr)) << spec;
  }
}

TEST(Review, RejectsBodiesThatCannotBeAnswered) {
  const auto error = [](std::string_view body) {
    const Result<Review> made = answer_review(body, kRules);
    EXPECT_FALSE(made) << body.substr(0, 80);
    return made ? "" : made.error().text();
  };
  EXPECT_THAT(error(""), HasSubstr("AdmissionReview"));
  EXPECT_THAT(error("{"), HasSubstr("AdmissionReview"));
  EXPECT_THAT(error("[]"), HasSubstr("is not an AdmissionReview"));
  EXPECT_THAT(error(R"({"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"})"),
              HasSubstr("is not an AdmissionReview"));
  EXPECT_THAT(error(R"({"apiVersion":"v1","kind":"Pod"})"), HasSubstr("is not an AdmissionReview"));
  constexpr std::string_view kHead = R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview")";
  EXPECT_THAT(error(fmt::format("{}}}", kHead)), HasSubstr("no request with a uid"));
  EXPECT_THAT(error(fmt::format(R"({},"request":{{"uid":""}}}})", kHead)),
              HasSubstr("no request with a uid"));
  EXPECT_THAT(error(fmt::format(R"({},"request":{{"uid":7}}}})", kHead)), HasSubstr("no request with a uid"));
  EXPECT_THAT(error(fmt::format(R"({},"request":{{"uid":"{}"}}}})", kHead, std::string(129, 'x'))),
              HasSubstr("no request with a uid"));
  const std::string deep = fmt::format(R"({},"request":{{"uid":"u","object":{}1{}}}}})", kHead,
                                       std::string(200'000, '['), std::string(200'000, ']'));
  EXPECT_THAT(error(deep), HasSubstr("AdmissionReview"));
}

TEST(Review, LimitsTheSizeOfTheBody) {
  ReviewRules rules = kRules;
  rules.max_bytes = 2000;
  object review = review_of(gpu_spec());
  EXPECT_TRUE(answer_review(boost::json::serialize(review), rules));
  review["request"].as_object()["object"].as_object()["metadata"] = object{{"name", std::string(2000, 'x')}};
  EXPECT_FALSE(answer_review(boost::json::serialize(review), rules));
}

}  // namespace
}  // namespace tessera::webhook
