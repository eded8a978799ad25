#include "extender/leader_label.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../kube/fake_api_server.h"

namespace tessera::extender {
namespace {

using namespace std::chrono_literals;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class LeaderLabelTest : public ::testing::Test {
 protected:
  LeaderLabelTest()
      : server_(loop_),
        client_(*kube::Client::create(loop_, server_.access(), {.user_agent = "tessera-extender/test"})) {
    server_.intercept = [this](const kube::FakeApiServer::Seen& seen) -> std::optional<http::Response> {
      if (seen.method == "PATCH") {
        patches_.push_back(seen.target.substr(0, seen.target.find('?')) + " " + seen.body);
        return http::Response{.body = "{}"};
      }
      lists_.push_back(seen.target);
      return http::Response{.body =
                                R"({"items":[{"metadata":{"name":"own"}},{"metadata":{"name":"dead"}}]})"};
    };
  }

  bool wait(const std::function<bool()>& condition) { return loop_.run_until(condition, 10s); }

  http::EventLoop loop_;
  kube::FakeApiServer server_;
  kube::Client client_;
  std::vector<std::string> patches_;
  std::vector<std::string> lists_;
  LeaderLabel label_{client_, "gpu", "own"};
};

// A leader whose node died cannot remove its label, and the Service would still select its pod.
TEST_F(LeaderLabelTest, RemovesTheLabelFromPodsThatNoLongerLead) {
  label_.set(true);
  ASSERT_TRUE(wait([&] { return patches_.size() >= 2; }));
  EXPECT_THAT(patches_,
              UnorderedElementsAre(
                  R"(/api/v1/namespaces/gpu/pods/own {"metadata":{"labels":{"tessera.io/leader":"true"}}})",
                  R"(/api/v1/namespaces/gpu/pods/dead {"metadata":{"labels":{"tessera.io/leader":null}}})"));
  ASSERT_EQ(lists_.size(), 1U);
  EXPECT_THAT(lists_[0], StartsWith("/api/v1/namespaces/gpu/pods?labelSelector=tessera.io%2Fleader%3Dtrue"));
}

TEST_F(LeaderLabelTest, RemovesOnlyItsOwnLabelIfItDoesNotLead) {
  label_.set(false);
  ASSERT_TRUE(wait([&] { return !patches_.empty(); }));
  EXPECT_THAT(patches_,
              UnorderedElementsAre(
                  R"(/api/v1/namespaces/gpu/pods/own {"metadata":{"labels":{"tessera.io/leader":null}}})"));
  EXPECT_TRUE(lists_.empty());
}

}  // namespace
}  // namespace tessera::extender
