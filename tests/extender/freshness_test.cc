#include "extender/freshness.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../kube/fake_api_server.h"
#include "../kube/recording_sink.h"

namespace tessera::extender {
namespace {

using namespace std::chrono_literals;

class FreshnessTest : public ::testing::Test {
 protected:
  FreshnessTest() : server_(loop_), client_(*kube::Client::create(loop_, server_.access(), {})) {
    server_.set_thing("a", "1");
    reflector_.start();
    EXPECT_TRUE(wait([&] { return server_.watches() > 0; }));
    freshness_.start();
  }

  bool wait(const std::function<bool()>& condition) { return loop_.run_until(condition, 10s); }

  http::EventLoop loop_;
  kube::FakeApiServer server_;
  kube::Client client_;
  kube::RecordingSink sink_;
  kube::Reflector reflector_{client_, {.path = "/api/v1/things"}, sink_};
  ManualClock clock_;
  Freshness freshness_{loop_, clock_, reflector_};
};

TEST_F(FreshnessTest, ListsAgainWhatASilentWatchMissed) {
  EXPECT_TRUE(freshness_.current());
  server_.stall();
  server_.set_thing("b", "1");
  freshness_.require_list("test");
  EXPECT_FALSE(freshness_.current());
  ASSERT_TRUE(wait([&] { return freshness_.current(); }));
  EXPECT_EQ(sink_.things, server_.things());
}

TEST_F(FreshnessTest, DetectsThatTheProcessWasStopped) {
  server_.stall();
  server_.set_thing("b", "1");
  clock_.advance(2s);
  EXPECT_TRUE(freshness_.current()) << "a short pause does not count";
  clock_.advance(4s);
  EXPECT_FALSE(freshness_.current());
  ASSERT_TRUE(wait([&] { return freshness_.current(); }));
  EXPECT_EQ(sink_.things, server_.things());
}

TEST_F(FreshnessTest, DetectsThatTheMachineWasPaused) {
  clock_.set_wall(clock_.wall() + 1h);
  EXPECT_FALSE(freshness_.current());
  ASSERT_TRUE(wait([&] { return freshness_.current(); }));
}

// A replica may start to lead before its first list of the pods is complete.
TEST_F(FreshnessTest, DoesNotTrustAFirstListInProgress) {
  kube::RecordingSink sink;
  kube::Reflector first(client_, {.path = "/api/v1/things"}, sink);
  Freshness freshness(loop_, clock_, first);
  const auto lists = [&] {
    return std::ranges::count_if(
        server_.seen, [](const auto& request) { return request.target.find("watch=") == std::string::npos; });
  };
  // The list shows the state before the doubt, and its response is in flight when the doubt arises.
  const auto before = lists();
  first.start();
  ASSERT_TRUE(wait([&] { return lists() == before + 1; }));
  ASSERT_FALSE(first.synced());
  server_.hide(true);
  server_.set_thing("b", "1");
  freshness.require_list("test");
  EXPECT_FALSE(freshness.current());
  ASSERT_TRUE(wait([&] { return freshness.current(); }));
  EXPECT_EQ(lists(), before + 2);
  EXPECT_EQ(sink.things, server_.things());
}

TEST_F(FreshnessTest, WaitsForAListThatStartedAfterTheDoubt) {
  freshness_.require_list("one");
  const auto lists = reflector_.counts().lists;
  freshness_.require_list("two");
  ASSERT_TRUE(wait([&] { return freshness_.current(); }));
  EXPECT_EQ(reflector_.counts().lists, lists + 1);
}

}  // namespace
}  // namespace tessera::extender
