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
        reported_at_ = std::chrono::steady_clock::now();
        listed_at_ = reported_at_;
        return http::Response{.body = fmt::format(R"({{"metadata":{{"resourceVersion":"{}"}},"items":[{}]}})",
                                                  next_ + 1, lease(next_ + 1, listed_))};
      }
      // Each watch reports the next holder and ends.
      if (next_ == holders_.size()) {
        return http::Response{.body = ""};
      }
      if (hold_ && hold_()) {
        return http::Response{.body = ""};
      }
      const std::string& holder = holders_[next_++];
      if (holder == kGap) {
        return http::Response{.status = 410, .body = kube::status_json(410, "Expired", "too old")};
      }
      reported_at_ = std::chrono::steady_clock::now();
      if (holder == kDeletion) {
        const std::string deleted = lease(next_ + 1, "other_1");
        uid_ = "another";
        return http::Response{.body = fmt::format("{{\"type\":\"DELETED\",\"object\":{}}}\n", deleted)};
      }
      return http::Response{
          .body = fmt::format("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", lease(next_ + 1, holder))};
    };
  }

  [[nodiscard]] std::string lease(std::size_t version, const std::string& holder) const {
    return fmt::format(
        R"({{"metadata":{{"name":"tessera-scheduler","namespace":"gpu","uid":"{}","resourceVersion":"{}"}},)"
        R"("spec":{{"holderIdentity":"{}","leaseDurationSeconds":{},"renewTime":"{}"}}}})",
        uid_, version, holder, duration_.count(), rfc3339_micros(Clock::real().wall() - renewed_before_));
  }
  bool wait(const std::function<bool()>& condition) { return loop_.run_until(condition, 20s); }
  // The listed Lease was last renewed so long ago that its holder may no longer act.
  void let_it_run_out() {
    duration_ = 1s;
    hold_ = [this] { return std::chrono::steady_clock::now() < reported_at_ + 700ms; };
  }

  // Starts to watch. A write of an extender takes up to `write_time`.
  void start(std::chrono::milliseconds write_time = 0ms) {
    make(write_time);
    made_->start();
  }
  void make(std::chrono::milliseconds write_time = 0ms) {
    made_.emplace(client_,
                  SchedulerLease::Options{.namespace_name = "gpu",
                                          .name = "tessera-scheduler",
                                          .own_pod = "own-7",
                                          .write_time = write_time},
                  [this] {
                    begun_at_ = std::chrono::steady_clock::now();
                    ++begun_;
                  });
  }

  static constexpr const char* kGap = "(the watch is too old; everything is listed again)";
  static constexpr const char* kDeletion = "(the Lease is deleted)";

  http::EventLoop loop_;
  kube::FakeApiServer server_;
  kube::Client client_;
  std::vector<std::string> targets_;
  std::string uid_ = "u";
  std::string listed_ = "other_1";
  std::vector<std::string> holders_;
  std::size_t next_ = 0;
  std::function<bool()> hold_;  // while it returns true, watches report nothing
  std::chrono::seconds duration_{15};
  std::chrono::seconds renewed_before_{0};
  std::chrono::steady_clock::time_point reported_at_{};  // when the last holder was reported
  std::chrono::steady_clock::time_point listed_at_{};
  std::chrono::steady_clock::time_point begun_at_{};
  int begun_ = 0;
  std::optional<SchedulerLease> made_;
};

TEST_F(SchedulerLeaseTest, CallsBackWhenTheSchedulerOfItsPodStartsToLead) {
  holders_ = {"own-7_a"};
  start();
  ASSERT_TRUE(wait([&] { return begun_ == 1; }));
  ASSERT_FALSE(targets_.empty());
  EXPECT_TRUE(targets_[0].starts_with("/apis/coordination.k8s.io/v1/namespaces/gpu/leases?")) << targets_[0];
  EXPECT_NE(targets_[0].find("fieldSelector=metadata.name%3Dtessera-scheduler"), std::string::npos)
      << targets_[0];
}

TEST_F(SchedulerLeaseTest, IgnoresRenewalsAndOtherHolders) {
  holders_ = {"own-77_a", "own-7_a", "own-7_a", "", "own-7_b"};
  hold_ = [this] { return next_ == 3 && begun_ == 0; };
  start();
  ASSERT_TRUE(wait([&] { return begun_ == 2; })) << "a restarted scheduler is a new holder";
  EXPECT_EQ(next_, holders_.size());
}

TEST_F(SchedulerLeaseTest, LeadsForTwoThirdsOfTheLeaseAfterARenewal) {
  make();
  EXPECT_LE(made_->time_left(), 0ms) << "the Lease has not been read yet";
  holders_ = {"own-7_a"};
  made_->start();
  ASSERT_TRUE(wait([&] { return begun_ == 1; }));
  EXPECT_GT(made_->time_left(), 0ms);
  EXPECT_LE(made_->time_left(), 10s);
}

// After a pod was stopped and continues, its watch may show a renewal that is long past.
TEST_F(SchedulerLeaseTest, DoesNotLeadAfterAnOldRenewal) {
  renewed_before_ = 11s;
  holders_ = {"own-7_a"};
  start();
  ASSERT_TRUE(wait([&] { return begun_ == 1; }));
  EXPECT_LE(made_->time_left(), 0ms);
}

TEST_F(SchedulerLeaseTest, ReportsWhyTheLeaderIsUnknown) {
  const std::string reading =
      "the Lease gpu/tessera-scheduler of the kube-scheduler in the same pod has not been read yet";
  make();
  EXPECT_EQ(made_->not_known(), reading);
  bool allowed = false;
  server_.intercept = [&](const kube::FakeApiServer::Seen&) -> std::optional<http::Response> {
    if (allowed) {
      return http::Response{.body = R"({"metadata":{"resourceVersion":"1"},"items":[]})"};
    }
    return http::Response{.status = 403, .body = kube::status_json(403, "Forbidden", "leases is forbidden")};
  };
  made_->start();
  ASSERT_TRUE(wait([&] { return made_->not_known() != reading; }));
  EXPECT_NE(made_->not_known().find("403: leases is forbidden"), std::string::npos) << made_->not_known();
  allowed = true;
  EXPECT_TRUE(wait([&] { return made_->not_known().empty(); })) << made_->not_known();
}

TEST_F(SchedulerLeaseTest, DoesNotLeadWhenAnotherHolderHasTakenTheLease) {
  holders_ = {"own-7_a", "other_2"};
  hold_ = [this] { return next_ == 1 && begun_ == 0; };
  start();
  ASSERT_TRUE(wait([&] { return begun_ == 1 && next_ == 2; }));
  ASSERT_TRUE(wait([&] { return made_->time_left() <= 0ms; }));
}

// kube-scheduler releases its Lease as soon as it shuts down, while the extender in its pod may
// still be writing.
TEST_F(SchedulerLeaseTest, WaitsForTheLastWriteOfAHolderThatReleasedTheLease) {
  std::chrono::steady_clock::time_point given_back;
  hold_ = [&] {
    given_back = next_ == 0 ? std::chrono::steady_clock::now() : given_back;
    return false;
  };
  holders_ = {"", "own-7_a", "own-7_a"};
  start(500ms);
  ASSERT_TRUE(wait([&] { return next_ == 3 || begun_ > 0; }));
  EXPECT_LE(made_->time_left(), 0ms);
  ASSERT_TRUE(wait([&] { return begun_ == 1; }));
  EXPECT_GE(begun_at_ - given_back, 500ms);
  EXPECT_GT(made_->time_left(), 0ms);
}

// kube-scheduler does not stop when its Lease is deleted. It stops when it could not renew the Lease
// for 2/3 of its duration, and the watch of the extender in its pod may be late.
TEST_F(SchedulerLeaseTest, WaitsForTheWholeTimeOfAHolderWhoseLeaseWasDeleted) {
  duration_ = 3s;
  holders_ = {kDeletion, "own-7_a", "own-7_a"};
  start(100ms);
  ASSERT_TRUE(wait([&] { return next_ == 3 || begun_ > 0; }));
  EXPECT_LE(made_->time_left(), 0ms);
  ASSERT_TRUE(wait([&] { return begun_ == 1; }));
  EXPECT_GE(begun_at_ - listed_at_, 2s);
}

TEST_F(SchedulerLeaseTest, WaitsIfTheLeaseWasDeletedDuringAGapInTheWatch) {
  duration_ = 3s;
  holders_ = {kGap};
  start(100ms);
  ASSERT_TRUE(wait([&] { return !targets_.empty() && made_->not_known().empty(); }));
  uid_ = "another";
  listed_ = "own-7_a";
  ASSERT_TRUE(wait([&] { return begun_ == 1; }));
  EXPECT_GE(begun_at_ - listed_at_, 2s);
}

TEST_F(SchedulerLeaseTest, DoesNotWaitIfItsOwnLeaseWasDeleted) {
  let_it_run_out();
  holders_ = {"own-7_a", kDeletion, "own-7_a"};
  start(1h);
  EXPECT_TRUE(wait([&] { return begun_ == 2; }));
}

TEST_F(SchedulerLeaseTest, DoesNotWaitAfterAnExpiredLease) {
  let_it_run_out();
  holders_ = {"own-7_a"};
  start(1h);
  EXPECT_TRUE(wait([&] { return begun_ == 1; }));
}

// Writes of others during the gap are unknown.
TEST_F(SchedulerLeaseTest, WaitsAfterAGapInTheWatchEvenIfTheLeaseSeemsExpired) {
  let_it_run_out();
  holders_ = {kGap};
  start(500ms);
  ASSERT_TRUE(wait([&] { return !targets_.empty() && made_->not_known().empty(); }));
  listed_ = "own-7_a";
  ASSERT_TRUE(wait([&] { return begun_ == 1; }));
  EXPECT_GE(begun_at_ - reported_at_, 500ms);
}

TEST_F(SchedulerLeaseTest, WaitsIfItsSchedulerAlreadyLeadsAtStart) {
  listed_ = "own-7_a";
  start(500ms);
  ASSERT_TRUE(wait([&] { return begun_ == 1; }));
  EXPECT_GE(begun_at_ - reported_at_, 500ms);
}

TEST_F(SchedulerLeaseTest, DoesNotWaitForItsOwnWrites) {
  let_it_run_out();
  holders_ = {"own-7_a", "", "own-7_b"};
  start(1h);
  EXPECT_TRUE(wait([&] { return begun_ == 2; }));
}

TEST_F(SchedulerLeaseTest, DoesNotLeadIfTheLeaseIsLostDuringTheWait) {
  holders_ = {"", "own-7_a", "other_2"};
  start(500ms);
  ASSERT_TRUE(wait([&] { return next_ == 3; }));
  EXPECT_FALSE(loop_.run_until([&] { return begun_ > 0; }, 1s));
  EXPECT_LE(made_->time_left(), 0ms);
}

}  // namespace
}  // namespace tessera::extender
