#include "extender/scheduler_lease.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "../kube/fake_api_server.h"
#include "base/clock.h"

namespace tessera::extender {
namespace {

using namespace std::chrono_literals;

class SchedulerLeaseTest : public ::testing::Test {
 protected:
  SchedulerLeaseTest() : server_(loop_), client_(*kube::Client::create(loop_, server_.access(), {})) {
    server_.intercept = [this](const kube::FakeApiServer::Seen& seen) -> std::optional<http::Response> {
      targets_.push_back(seen.target);
      if (seen.target.find("watch=") == std::string::npos) {
        return http::Response{.body = R"({"metadata":{"resourceVersion":"1"},"items":[)" +
                                      lease(1, "other_1") + "]}"};
      }
      // Each watch brings the next holder and ends.
      if (next_ == holders_.size()) {
        return http::Response{.body = ""};
      }
      const std::string& holder = holders_[next_++];
      return http::Response{
          .body = fmt::format("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", lease(next_ + 1, holder))};
    };
  }

  [[nodiscard]] std::string lease(std::size_t version, const std::string& holder) const {
    return fmt::format(
        R"({{"metadata":{{"name":"tessera-scheduler","namespace":"gpu","uid":"u","resourceVersion":"{}"}},)"
        R"("spec":{{"holderIdentity":"{}","leaseDurationSeconds":15,"renewTime":"{}"}}}})",
        version, holder, rfc3339_micros(Clock::real().wall() - renewed_before_));
  }
  bool wait(const std::function<bool()>& condition) { return loop_.run_until(condition, 20s); }

  http::EventLoop loop_;
  kube::FakeApiServer server_;
  kube::Client client_;
  std::vector<std::string> targets_;
  std::vector<std::string> holders_;
  std::size_t next_ = 0;
  std::chrono::seconds renewed_before_{0};
  int begun_ = 0;
  SchedulerLease lease_{client_,
                        {.namespace_name = "gpu", .name = "tessera-scheduler", .own_pod = "own-7"},
                        [this] { ++begun_; }};
};

TEST_F(SchedulerLeaseTest, TellsWhenTheSchedulerBesideItBeginsToLead) {
  holders_ = {"own-7_a"};
  lease_.start();
  ASSERT_TRUE(wait([&] { return begun_ == 1; }));
  ASSERT_FALSE(targets_.empty());
  EXPECT_TRUE(targets_[0].starts_with("/apis/coordination.k8s.io/v1/namespaces/gpu/leases?")) << targets_[0];
  EXPECT_NE(targets_[0].find("fieldSelector=metadata.name%3Dtessera-scheduler"), std::string::npos)
      << targets_[0];
}

TEST_F(SchedulerLeaseTest, IsNotMovedByRenewalsAndOthers) {
  holders_ = {"own-77_a", "own-7_a", "own-7_a", "", "own-7_b"};
  lease_.start();
  ASSERT_TRUE(wait([&] { return begun_ == 2; })) << "a scheduler that was started anew is another one";
  EXPECT_EQ(next_, holders_.size());
}

TEST_F(SchedulerLeaseTest, LeadsForTwoThirdsOfTheLeaseFromTheLastRenewalOn) {
  EXPECT_LE(lease_.time_left(), 0ms) << "nothing is known yet";
  holders_ = {"own-7_a"};
  lease_.start();
  ASSERT_TRUE(wait([&] { return begun_ == 1; }));
  EXPECT_GT(lease_.time_left(), 0ms);
  EXPECT_LE(lease_.time_left(), 10s);
}

// What a pod that was stopped finds when it goes on: the last renewal, long ago, is told only now.
TEST_F(SchedulerLeaseTest, DoesNotLeadByARenewalOfLongAgo) {
  renewed_before_ = 11s;
  holders_ = {"own-7_a"};
  lease_.start();
  ASSERT_TRUE(wait([&] { return begun_ == 1; }));
  EXPECT_LE(lease_.time_left(), 0ms);
}

TEST_F(SchedulerLeaseTest, SaysWhyItDoesNotKnowWhoLeads) {
  const std::string reading =
      "the Lease gpu/tessera-scheduler of the kube-scheduler beside it is still being read";
  EXPECT_EQ(lease_.not_known(), reading);
  bool allowed = false;
  server_.intercept = [&](const kube::FakeApiServer::Seen&) -> std::optional<http::Response> {
    if (allowed) {
      return http::Response{.body = R"({"metadata":{"resourceVersion":"1"},"items":[]})"};
    }
    return http::Response{.status = 403, .body = kube::status_json(403, "Forbidden", "leases is forbidden")};
  };
  lease_.start();
  ASSERT_TRUE(wait([&] { return lease_.not_known() != reading; }));
  EXPECT_NE(lease_.not_known().find("403: leases is forbidden"), std::string::npos) << lease_.not_known();
  allowed = true;
  EXPECT_TRUE(wait([&] { return lease_.not_known().empty(); })) << lease_.not_known();
}

TEST_F(SchedulerLeaseTest, DoesNotLeadWhenAnotherHasTakenIt) {
  holders_ = {"own-7_a", "other_2"};
  lease_.start();
  ASSERT_TRUE(wait([&] { return begun_ == 1 && next_ == 2; }));
  ASSERT_TRUE(wait([&] { return lease_.time_left() <= 0ms; }));
}

}  // namespace
}  // namespace tessera::extender
