#include "kube/leader_election.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tessera::kube {
namespace {

using namespace std::chrono_literals;
using Action = LeaderElection::Action;

// An API server with one Lease.
class LeaseServer {
 public:
  std::optional<LeaseRecord> lease;

  // Performs the step like the API server and reports the outcome to the election, unless the
  // response is lost.
  void respond(LeaderElection& election, const LeaderElection::Step& step, bool lose_response = false) {
    const std::optional<bool> done = apply(step);
    if (lose_response) {
      election.failed();
    } else if (step.action == Action::kRead) {
      lease ? election.found(*lease) : election.absent();
    } else if (!done) {
      election.absent();
    } else if (*done) {
      election.written(lease->resource_version);
    } else {
      election.conflicted();
    }
  }

  // Returns nothing for "not found" and false for a conflict.
  std::optional<bool> apply(const LeaderElection::Step& step) {
    if (step.action == Action::kRead) {
      return true;
    }
    if (step.action == Action::kUpdate && !lease) {
      return std::nullopt;
    }
    if (step.action == Action::kCreate ? lease.has_value()
                                       : lease->resource_version != step.record.resource_version) {
      return false;
    }
    lease = step.record;
    lease->resource_version = std::to_string(++version_);
    return true;
  }

 private:
  int version_ = 0;
};

class LeaderElectionTest : public ::testing::Test {
 protected:
  LeaderElection candidate(const std::string& name) {
    auto election = LeaderElection::create({.identity = name, .retry_period = 2s}, clock_,
                                           [] { return std::uint64_t{0}; });
    EXPECT_TRUE(election);
    return *election;
  }
  // A candidate with maximum jitter: it always waits a fifth longer than its period.
  LeaderElection slow_candidate(const std::string& name, std::chrono::seconds period) {
    auto election = LeaderElection::create({.identity = name, .retry_period = period}, clock_,
                                           [] { return ~std::uint64_t{0}; });
    EXPECT_TRUE(election);
    return *election;
  }

  // Performs one step, which must be due, and returns its action.
  Action step(LeaderElection& election, bool lose_response = false) {
    EXPECT_LE(election.next_at(), clock_.now());
    const auto begun = election.begin();
    server_.respond(election, begun, lose_response);
    return begun.action;
  }

  void settle(LeaderElection& election) {
    for (int i = 0; i < 10 && election.next_at() <= clock_.now(); ++i) {
      step(election);
    }
  }

  // Returns the current Lease, renewed now.
  LeaseRecord renewed_by(const std::string& name) {
    LeaseRecord record = *server_.lease;
    record.holder = name;
    record.renewed = std::chrono::floor<std::chrono::microseconds>(clock_.wall());
    return record;
  }

  ManualClock clock_;
  LeaseServer server_;
};

TEST_F(LeaderElectionTest, CreatesTheLeaseIfItDoesNotExist) {
  LeaderElection a = candidate("a");
  EXPECT_FALSE(a.leading());
  EXPECT_EQ(step(a), Action::kRead);
  EXPECT_EQ(step(a), Action::kCreate);
  EXPECT_TRUE(a.leading());
  EXPECT_EQ(a.valid_until(), clock_.now() + 10s);
  EXPECT_EQ(server_.lease->holder, "a");
  EXPECT_EQ(server_.lease->duration, 15s);
  EXPECT_EQ(server_.lease->transitions, 0);
}

TEST_F(LeaderElectionTest, RenewsWithOneWriteAndKeepsTheAcquireTime) {
  LeaderElection a = candidate("a");
  settle(a);
  const auto acquired = server_.lease->acquired;
  clock_.advance(2s);
  EXPECT_EQ(step(a), Action::kUpdate);
  EXPECT_EQ(server_.lease->acquired, acquired);
  EXPECT_GT(server_.lease->renewed, acquired);
  EXPECT_EQ(a.valid_until(), clock_.now() + 10s);
}

TEST_F(LeaderElectionTest, WaitsForTheWholeLeaseOfASilentLeader) {
  LeaderElection a = candidate("a");
  settle(a);
  LeaderElection b = candidate("b");
  clock_.advance(7s);
  EXPECT_EQ(step(b), Action::kRead);
  // b sees the Lease for the first time. It must wait from now on, because it cannot know how old
  // the renewal is.
  for (int waited = 2; waited < 15; waited += 2) {
    clock_.advance(2s);
    EXPECT_EQ(step(b), Action::kRead) << waited;
    EXPECT_FALSE(b.leading());
  }
  clock_.advance(2s);
  settle(b);
  EXPECT_TRUE(b.leading());
  EXPECT_FALSE(a.leading()) << "the lease of a was valid for 10 s";
  EXPECT_EQ(server_.lease->transitions, 1);
  settle(a);  // conflict
  clock_.advance(2s);
  settle(a);
  EXPECT_EQ(a.holder(), "b");
}

// Regression test: a candidate saw the last renewal up to one period late, and then polled up to
// one period after it could have taken over the Lease.
TEST_F(LeaderElectionTest, TakesOverAFreeLeaseAtMostOnePeriodLate) {
  for (const std::chrono::milliseconds period : {1000ms, 2000ms}) {
    for (auto died_after = 0ms; died_after < 3s; died_after += 100ms) {
      server_.lease.reset();
      LeaderElection a = candidate("a");
      settle(a);
      LeaderElection b = slow_candidate("b", std::chrono::floor<std::chrono::seconds>(period));
      settle(b);
      clock_.advance(died_after);
      ASSERT_TRUE(server_.apply(LeaderElection::Step{.action = Action::kUpdate, .record = renewed_by("a")}));
      const auto free_at = clock_.now() + 15s;
      while (!b.leading()) {
        clock_.advance(10ms);
        settle(b);
        ASSERT_LE(clock_.now(), free_at + 5s);
      }
      EXPECT_GE(clock_.now(), free_at) << died_after.count();
      EXPECT_LE(clock_.now(), free_at + period * 6 / 5 + 20ms) << died_after.count();
    }
  }
}

TEST_F(LeaderElectionTest, OfTwoSimultaneousTakeoversOneSucceedsAndTheOtherWaits) {
  LeaderElection a = candidate("a");
  settle(a);
  LeaderElection b = candidate("b");
  LeaderElection c = candidate("c");
  settle(b);
  settle(c);
  const auto free_at = clock_.now() + 15s;
  while (clock_.now() < free_at) {
    clock_.advance(1s);
    settle(b);
    settle(c);
  }
  EXPECT_TRUE(b.leading());
  EXPECT_FALSE(c.leading());
  EXPECT_GE(c.next_at(), clock_.now() + 2s) << "after a conflict it must wait for a whole period";
}

TEST_F(LeaderElectionTest, DoesNotTakeOverAsLongAsTheLeaderRenews) {
  LeaderElection a = candidate("a");
  settle(a);
  LeaderElection b = candidate("b");
  for (int i = 0; i < 100; ++i) {
    settle(a);
    settle(b);
    EXPECT_TRUE(a.leading());
    EXPECT_FALSE(b.leading());
    clock_.advance(1s);
  }
}

TEST_F(LeaderElectionTest, TheLeaseIsValidFromWhenTheRenewalWasSent) {
  LeaderElection a = candidate("a");
  settle(a);
  clock_.advance(2s);
  const auto sent = clock_.now();
  const auto begun = a.begin();
  clock_.advance(3s);
  server_.respond(a, begun);
  EXPECT_EQ(a.valid_until(), sent + 10s);
}

TEST_F(LeaderElectionTest, LosesTheLeaseWhenRenewalsFail) {
  LeaderElection a = candidate("a");
  settle(a);
  const auto until = a.valid_until();
  for (int i = 0; i < 4; ++i) {
    clock_.advance(2s);
    a.begin();
    a.failed();
  }
  EXPECT_TRUE(a.leading());
  EXPECT_EQ(a.valid_until(), until);
  clock_.advance(2s);
  EXPECT_FALSE(a.leading());
}

TEST_F(LeaderElectionTest, ContinuesAfterALostResponseToARenewal) {
  LeaderElection a = candidate("a");
  settle(a);
  clock_.advance(2s);
  step(a, /*lose_response=*/true);
  clock_.advance(2s);
  EXPECT_EQ(step(a), Action::kRead);
  EXPECT_EQ(step(a), Action::kUpdate);
  EXPECT_TRUE(a.leading());
  EXPECT_EQ(a.valid_until(), clock_.now() + 10s);
}

TEST_F(LeaderElectionTest, StaysLeaderWhenAnotherClientLabelsTheLease) {
  LeaderElection a = candidate("a");
  settle(a);
  server_.lease->resource_version = "77";
  clock_.advance(2s);
  EXPECT_EQ(step(a), Action::kUpdate);  // refused
  EXPECT_TRUE(a.leading());
  settle(a);
  EXPECT_TRUE(a.leading());
  EXPECT_EQ(a.valid_until(), clock_.now() + 10s);
}

TEST_F(LeaderElectionTest, StopsAtOnceWhenTheLeaseWasDeleted) {
  LeaderElection a = candidate("a");
  settle(a);
  server_.lease.reset();
  clock_.advance(2s);
  EXPECT_EQ(step(a), Action::kUpdate);
  EXPECT_FALSE(a.leading());
  EXPECT_EQ(step(a), Action::kCreate);
  EXPECT_TRUE(a.leading());
}

TEST_F(LeaderElectionTest, DoesNotRecreateADeletedLeaseBeforeItsHolderMustHaveNoticed) {
  LeaderElection a = candidate("a");
  LeaderElection b = candidate("b");
  settle(a);
  settle(b);
  server_.lease.reset();
  clock_.advance(2s);
  EXPECT_EQ(step(b), Action::kRead);
  EXPECT_TRUE(a.leading()) << "it has not tried to renew since";
  settle(b);
  EXPECT_FALSE(b.leading());
  clock_.advance(15s);
  settle(b);
  EXPECT_TRUE(b.leading());
  EXPECT_FALSE(a.leading());
}

// Otherwise a leader that fails after the deletion is replaced one duration too late.
TEST_F(LeaderElectionTest, NoticesThatADeletedLeaseWasCreatedAgain) {
  LeaderElection a = candidate("a");
  LeaderElection b = candidate("b");
  settle(a);
  settle(b);
  server_.lease.reset();
  clock_.advance(2s);
  settle(b);
  settle(a);
  EXPECT_TRUE(a.leading()) << "it has created the Lease again";
  for (int i = 0; i < 3; ++i) {  // from here on, a is silent
    clock_.advance(2s);
    settle(b);
  }
  clock_.advance(15s - 4s);
  settle(b);
  EXPECT_TRUE(b.leading()) << "it saw the new Lease at most 2 s late";
}

// The candidate last saw the Lease long ago, and the holder has renewed it since.
TEST_F(LeaderElectionTest, ACandidateThatWasStoppedDoesNotRecreateADeletedLeaseAtOnce) {
  LeaderElection a = candidate("a");
  LeaderElection b = candidate("b");
  settle(a);
  settle(b);
  for (int i = 0; i < 20; ++i) {
    clock_.advance(2s);
    settle(a);
  }
  server_.lease.reset();
  settle(b);
  EXPECT_TRUE(a.leading()) << "it has just renewed";
  EXPECT_FALSE(b.leading());
}

TEST_F(LeaderElectionTest, HandsOverWithoutDelay) {
  LeaderElection a = candidate("a");
  LeaderElection b = candidate("b");
  settle(a);
  settle(b);
  a.resign();
  EXPECT_FALSE(a.leading()) << "it must stop before the Lease is released";
  const auto release = a.release();
  ASSERT_TRUE(release);
  server_.apply(*release);
  EXPECT_EQ(server_.lease->holder, "");
  clock_.advance(2s);
  settle(b);
  EXPECT_TRUE(b.leading());
  EXPECT_FALSE(a.release()) << "it no longer holds the Lease";
}

TEST_F(LeaderElectionTest, ReleasesTheLeaseAfterARenewalInFlight) {
  LeaderElection a = candidate("a");
  settle(a);
  clock_.advance(2s);
  const auto renewal = a.begin();
  a.resign();
  server_.respond(a, renewal);
  EXPECT_FALSE(a.leading());
  server_.apply(*a.release());
  EXPECT_EQ(server_.lease->holder, "");
}

TEST_F(LeaderElectionTest, APausedMachineDoesNotKeepItsOldLease) {
  LeaderElection a = candidate("a");
  settle(a);
  clock_.set_wall(clock_.wall() + 1h);  // the steady clock of a paused virtual machine does not advance
  EXPECT_FALSE(a.leading());
}

TEST_F(LeaderElectionTest, RejectsInvalidTimes) {
  for (const auto& [duration, deadline, period] : {std::tuple{10s, 10s, 2s}, {15s, 2s, 2s}, {15s, 10s, 0s}}) {
    EXPECT_FALSE(LeaderElection::create(
        {.identity = "a", .duration = duration, .renew_deadline = deadline, .retry_period = period}, clock_,
        default_random()));
  }
  EXPECT_FALSE(LeaderElection::create({.identity = ""}, clock_, default_random()));
}

// Three candidates with lost responses and long pauses: two never lead at the same time, and a
// request that a leader sent at the last moment ends (5 s later) before another process leads.
TEST_F(LeaderElectionTest, NeverHasTwoLeaders) {
  std::mt19937_64 random(7);
  const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
  std::vector<LeaderElection> all{candidate("a"), candidate("b"), candidate("c")};
  std::vector<Clock::Steady> silent_until(3, clock_.now());
  std::vector<std::optional<LeaderElection::Step>> in_flight(3);
  std::vector<Clock::Steady> last_led(3, clock_.now() - 1h);
  int changes = 0;
  int leader = -1;
  for (int i = 0; i < 60'000; ++i) {
    for (std::size_t c = 0; c < all.size(); ++c) {
      if (clock_.now() < silent_until[c]) {
        continue;
      }
      if (in_flight[c]) {
        server_.respond(all[c], *in_flight[c], chance(20));
        in_flight[c].reset();
      } else if (all[c].next_at() <= clock_.now()) {
        in_flight[c] = all[c].begin();
      }
      if (chance(1)) {
        silent_until[c] = clock_.now() + std::chrono::seconds(random() % 40);
      }
    }
    for (std::size_t c = 0; c < all.size(); ++c) {
      if (!all[c].leading()) {
        continue;
      }
      for (std::size_t other = 0; other < all.size(); ++other) {
        ASSERT_TRUE(other == c || last_led[other] + 5s <= clock_.now()) << "at step " << i;
      }
      last_led[c] = clock_.now();
      changes += leader != static_cast<int>(c) ? 1 : 0;
      leader = static_cast<int>(c);
    }
    clock_.advance(std::chrono::milliseconds(random() % 700));
  }
  EXPECT_GT(changes, 50) << "too few changes of the leader for a meaningful test";
}

TEST(LeaseRecord, ParsesAndFormatsTheObject) {
  LeaseRecord record;
  record.holder = "pod \"x\"";
  record.duration = 15s;
  record.acquired = Clock::Wall(std::chrono::seconds(1'700'000'000));
  record.renewed = record.acquired + 123456us;
  record.transitions = 3;
  record.resource_version = "42";
  EXPECT_EQ(
      lease_to_patch(record),
      R"({"metadata":{"resourceVersion":"42"},"spec":{"holderIdentity":"pod \"x\"","leaseDurationSeconds":15,)"
      R"("acquireTime":"2023-11-14T22:13:20.000000Z","renewTime":"2023-11-14T22:13:20.123456Z","leaseTransitions":3}})");
  const auto read = parse_lease(lease_to_patch(record));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_TRUE(read->same_write(record));
  EXPECT_EQ(read->resource_version, "42");
  const auto bare = parse_lease(R"({"metadata":{"name":"x","resourceVersion":"1"}})");
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->holder, "");
  EXPECT_FALSE(parse_lease(R"({"metadata":{},"spec":{}})"));
  EXPECT_FALSE(parse_lease(R"({"metadata":{"resourceVersion":"1"},"spec":{"renewTime":"yesterday"}})"));
}

}  // namespace
}  // namespace tessera::kube
