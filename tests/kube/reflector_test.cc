#include "kube/reflector.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/log.h"
#include "fake_api_server.h"
#include "recording_sink.h"

namespace tessera::kube {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;

class ReflectorTest : public ::testing::Test {
 protected:
  ReflectorTest()
      : server_(loop_),
        client_(*Client::create(loop_, server_.access(),
                                {.user_agent = "reflector-test", .backoff = {.first = 1ms, .cap = 5ms}})) {
    log::Options quiet;
    quiet.level = log::Level::kError;  // the tests cause thousands of warnings
    EXPECT_TRUE(log::configure(quiet));
    options_.path = "/api/v1/things";
    options_.backoff = {.first = 1ms, .cap = 5ms};
  }

  void start() {
    reflector_ = std::make_unique<Reflector>(client_, options_, sink_);
    reflector_->start();
  }
  bool wait(const std::function<bool()>& condition) { return loop_.run_until(condition, 20s); }
  // Waits until the sink equals the server's state and a watch is open.
  bool settled() {
    return wait([&] { return sink_.things == server_.things() && server_.watches() > 0; });
  }
  std::size_t lists() const {
    std::size_t count = 0;
    for (const auto& request : server_.seen) {
      count += request.target.find("limit=") != std::string::npos &&
                       request.target.find("continue=") == std::string::npos
                   ? 1
                   : 0;
    }
    return count;
  }

  http::EventLoop loop_;
  FakeApiServer server_;
  Client client_;
  ReflectorOptions options_;
  RecordingSink sink_;
  std::unique_ptr<Reflector> reflector_;
};

TEST_F(ReflectorTest, ListsInPagesThenWatches) {
  options_.page_items = 3;
  for (int i = 0; i < 10; ++i) {
    server_.set_thing(fmt::format("t{}", i), "v");
  }
  start();
  ASSERT_TRUE(settled());
  EXPECT_EQ(sink_.syncs, 1);
  EXPECT_EQ(reflector_->objects(), 10U);
  server_.set_thing("t3", "w");
  server_.remove_thing("t4");
  server_.set_thing("new", "x");
  ASSERT_TRUE(settled());
  EXPECT_THAT(std::vector<std::string>(sink_.log.begin() + 10, sink_.log.end()),
              ElementsAre("+t3=w", "-t4", "+new=x"));
  EXPECT_EQ(server_.seen.size(), 5U) << "four pages and one watch";
  EXPECT_EQ(server_.seen[0].user_agent, "reflector-test");
}

TEST_F(ReflectorTest, RequestsBookmarksATimeoutAndItsSelectors) {
  options_.field_selector = "spec.nodeName=gpu-a";
  options_.label_selector = "a in (b,c)";
  start();
  ASSERT_TRUE(settled());
  EXPECT_THAT(server_.seen[0].target, HasSubstr("fieldSelector=spec.nodeName%3Dgpu-a"));
  EXPECT_THAT(server_.seen[0].target, HasSubstr("labelSelector=a%20in%20%28b%2Cc%29"));
  EXPECT_THAT(server_.seen[1].target,
              HasSubstr("watch=1&allowWatchBookmarks=true&resourceVersion=1&timeoutSeconds="));
  EXPECT_THAT(server_.seen[1].target, HasSubstr("fieldSelector=spec.nodeName%3Dgpu-a"));
}

TEST_F(ReflectorTest, ARelistDeliversOnlyChanges) {
  server_.set_thing("a", "1");
  server_.set_thing("b", "1");
  start();
  ASSERT_TRUE(settled());
  server_.stall();
  server_.set_thing("a", "2");
  server_.remove_thing("b");
  reflector_->relist();
  ASSERT_TRUE(wait([&] { return reflector_->counts().lists == 2; }));
  EXPECT_THAT(sink_.log, ElementsAre("+a=1", "+b=1", "+a=2", "-b"));
  server_.set_thing("c", "1");
  ASSERT_TRUE(settled());
  EXPECT_EQ(reflector_->counts().failures, 0U);
}

TEST_F(ReflectorTest, ResumesTheWatchAfterABrokenConnection) {
  server_.set_thing("a", "1");
  start();
  ASSERT_TRUE(settled());
  server_.cut_watches();
  server_.set_thing("a", "2");
  server_.set_thing("b", "1");
  ASSERT_TRUE(settled());
  EXPECT_THAT(sink_.log, ElementsAre("+a=1", "+a=2", "+b=1"));
  EXPECT_EQ(lists(), 1U);
  EXPECT_EQ(reflector_->problem(), std::nullopt);
}

TEST_F(ReflectorTest, ResumesFromABookmark) {
  server_.set_thing("a", "1");
  start();
  ASSERT_TRUE(settled());
  server_.hide(true);
  server_.set_thing("elsewhere", "x");
  server_.remove_thing("elsewhere");
  server_.hide(false);
  server_.bookmark();
  ASSERT_TRUE(wait([&] { return reflector_->counts().bookmarks == 1; }));
  server_.compact();
  server_.cut_watches();
  ASSERT_TRUE(settled());
  EXPECT_EQ(lists(), 1U) << "without the bookmark the version would be too old";
}

TEST_F(ReflectorTest, ForgetsObjectsThatWereDeletedDuringAGap) {
  server_.set_thing("a", "1");
  server_.set_thing("b", "1");
  server_.set_thing("c", "1");
  start();
  ASSERT_TRUE(settled());
  server_.cut_watches();
  server_.remove_thing("a");
  server_.remove_thing("b");
  server_.set_thing("b", "recreated");
  server_.set_thing("d", "1");
  server_.compact();
  ASSERT_TRUE(settled());
  EXPECT_EQ(reflector_->counts().expired, 1U);
  EXPECT_EQ(sink_.syncs, 2);
  EXPECT_THAT(std::vector<std::string>(sink_.log.begin() + 3, sink_.log.end()),
              ElementsAre("-b", "+b=recreated", "+d=1", "-a"))
      << "c did not change and must not be delivered again";
}

TEST_F(ReflectorTest, StartsTheListAgainWhenItsContinueTokenIsTooOld) {
  options_.page_items = 2;
  for (int i = 0; i < 5; ++i) {
    server_.set_thing(fmt::format("t{}", i), "v");
  }
  bool compacted = false;
  server_.intercept = [&](const FakeApiServer::Seen& request) -> std::optional<http::Response> {
    if (!compacted && request.target.find("continue=") != std::string::npos) {
      compacted = true;
      server_.set_thing("t0", "changed during the list");
      server_.compact();
    }
    return std::nullopt;
  };
  start();
  ASSERT_TRUE(settled());
  EXPECT_EQ(lists(), 2U);
  EXPECT_EQ(sink_.syncs, 1);
}

// The next page is requested before this one is parsed. If this one turns out to be invalid, no
// item of the next page may get into the new list.
TEST_F(ReflectorTest, AnInvalidPageCancelsTheNextPage) {
  options_.page_items = 2;
  for (int i = 0; i < 5; ++i) {
    server_.set_thing(fmt::format("t{}", i), "v");
  }
  int pages = 0;
  server_.intercept = [&](const FakeApiServer::Seen&) -> std::optional<http::Response> {
    if (++pages != 1) {
      return std::nullopt;
    }
    return http::Response{
        .body =
            R"({"kind":"ThingList","metadata":{"resourceVersion":"6","continue":"6.2"},"items":[{"metadata":{}}]})"};
  };
  start();
  ASSERT_TRUE(settled());
  EXPECT_EQ(lists(), 2U);
  EXPECT_EQ(reflector_->counts().failures, 1U);
  EXPECT_EQ(sink_.syncs, 1);
  EXPECT_THAT(sink_.log, ElementsAre("+t0=v", "+t1=v", "+t2=v", "+t3=v", "+t4=v"));
}

TEST_F(ReflectorTest, AcceptsAPageWithMetadataAfterItsItems) {
  options_.page_items = 1;
  int pages = 0;
  server_.intercept = [&](const FakeApiServer::Seen& request) -> std::optional<http::Response> {
    if (request.target.find("limit=") == std::string::npos) {
      return std::nullopt;
    }
    ++pages;
    return http::Response{
        .body = fmt::format(
            R"({{"items":[{{"metadata":{{"name":"t{0}","uid":"u{0}","resourceVersion":"{0}"}},"spec":{{"value":"v"}}}}],"metadata":{{"resourceVersion":"5"{1}}}}})",
            pages, pages == 1 ? R"(,"continue":"more")" : "")};
  };
  start();
  ASSERT_TRUE(wait([&] { return sink_.syncs == 1; }));
  EXPECT_EQ(reflector_->objects(), 2U);
  EXPECT_EQ(pages, 2);
}

TEST_F(ReflectorTest, RelistsAfterAnErrorEvent) {
  server_.set_thing("a", "1");
  start();
  ASSERT_TRUE(settled());
  server_.hide(true);
  server_.set_thing("a", "2");
  server_.hide(false);
  server_.error_line(500, "InternalError");
  ASSERT_TRUE(settled());
  EXPECT_EQ(lists(), 2U);
}

TEST_F(ReflectorTest, IgnoresATruncatedEvent) {
  server_.set_thing("a", "1");
  start();
  ASSERT_TRUE(settled());
  server_.write_raw(R"({"type":"DELETED","object":{"metadata":{"name":"a","uid":"0000)");
  server_.cut_watches();
  ASSERT_TRUE(settled());
  EXPECT_THAT(sink_.log, ElementsAre("+a=1"));
}

TEST_F(ReflectorTest, RelistsAfterAnInvalidEvent) {
  for (const char* garbage : {"no json\n", "{\"type\":\"ADDED\"}\n", "{\"type\":\"PARTY\",\"object\":{}}\n",
                              "{\"type\":\"ADDED\",\"object\":{}}\n", "[]\n",
                              "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"x\",\"uid\":\"u\","
                              "\"resourceVersion\":\"x\"}}}\n"}) {
    const std::size_t before = lists();
    server_.set_thing("a", garbage[0] == '[' ? "1" : "2");
    start();
    ASSERT_TRUE(settled()) << garbage;
    server_.write_raw(garbage);
    ASSERT_TRUE(wait([&] { return lists() == before + 2; })) << garbage;
    ASSERT_TRUE(settled()) << garbage;
    reflector_.reset();
    server_.cut_watches();
    sink_.things.clear();
  }
}

TEST_F(ReflectorTest, DuplicatedEventsAreDeliveredOnce) {
  start();
  ASSERT_TRUE(settled());
  server_.set_thing("a", "1");
  server_.set_thing("a", "2");
  server_.remove_thing("a");
  ASSERT_TRUE(settled());
  server_.repeat_lines(3);
  server_.set_thing("b", "1");
  ASSERT_TRUE(settled());
  EXPECT_THAT(sink_.log, ElementsAre("+a=1", "+a=2", "-a", "+b=1"))
      << "the repeated ADDED must not restore a";
  EXPECT_EQ(reflector_->counts().repeated, 3U);
}

TEST_F(ReflectorTest, DetectsASilentConnection) {
  options_.idle = 1s;
  server_.set_thing("a", "1");
  start();
  ASSERT_TRUE(settled());
  server_.stall();
  server_.set_thing("a", "2");
  ASSERT_TRUE(wait([&] { return sink_.things == server_.things(); }));
  EXPECT_EQ(lists(), 1U);
}

// Every watch from a version that the restored server has not reached is silent.
TEST_F(ReflectorTest, RelistsWhenTheServerWasRestoredFromABackup) {
  options_.idle = 50ms;
  for (int i = 0; i < 20; ++i) {
    server_.set_thing("a", std::to_string(i));
  }
  server_.set_thing("b", "created after the backup");
  start();
  ASSERT_TRUE(settled());
  server_.cut_watches();
  server_.restore_version(2);
  server_.remove_thing("b");
  server_.set_thing("a", "as it was");
  ASSERT_TRUE(wait([&] { return sink_.things == server_.things(); }));
  EXPECT_EQ(lists(), 2U);
}

TEST_F(ReflectorTest, ContinuesWhenTheServerEndsAWatch) {
  start();
  ASSERT_TRUE(settled());
  for (int i = 0; i < 5; ++i) {
    server_.set_thing("a", std::to_string(i));
    ASSERT_TRUE(settled());
    server_.end_watches();
  }
  ASSERT_TRUE(settled());
  EXPECT_EQ(lists(), 1U);
  EXPECT_EQ(reflector_->counts().failures, 0U);
}

TEST_F(ReflectorTest, WaitsForRetryAfterAndReportsTheError) {
  int refusals = 0;
  server_.intercept = [&](const FakeApiServer::Seen& request) -> std::optional<http::Response> {
    if (request.target.find("watch=1") != std::string::npos && ++refusals <= 1) {
      return http::Response{.status = 429,
                            .body = status_json(429, "TooManyRequests", "slow down"),
                            .headers = {{"Retry-After", "1"}}};
    }
    return std::nullopt;
  };
  const auto began = std::chrono::steady_clock::now();
  start();
  ASSERT_TRUE(wait([&] { return reflector_->problem().has_value(); }));
  EXPECT_THAT(reflector_->problem()->text(), HasSubstr("slow down"));
  server_.set_thing("a", "1");
  ASSERT_TRUE(settled());
  EXPECT_GE(std::chrono::steady_clock::now() - began, 1s);
}

TEST_F(ReflectorTest, OneUnreadableObjectDoesNotStopTheOthers) {
  server_.set_thing("a", "1");
  server_.set_thing("b", "unreadable");
  server_.set_thing("c", "1");
  start();
  ASSERT_TRUE(wait([&] { return sink_.syncs == 1 && server_.watches() > 0; }));
  EXPECT_THAT(sink_.log, ElementsAre("+a=1", "?b", "+c=1"));
  server_.set_thing("b", "readable");
  ASSERT_TRUE(settled());
  EXPECT_EQ(reflector_->counts().unreadable, 1U);
}

TEST_F(ReflectorTest, RequestsSmallerPagesWhenAPageIsTooLarge) {
  options_.page_items = 64;
  for (int i = 0; i < 100; ++i) {
    server_.set_thing(fmt::format("t{}", i), "v");
  }
  server_.intercept = [&](const FakeApiServer::Seen& request) -> std::optional<http::Response> {
    if (request.target.find("limit=64") != std::string::npos) {
      return http::Response{.status = 413, .body = status_json(413, "RequestEntityTooLarge", "too much")};
    }
    return std::nullopt;
  };
  start();
  ASSERT_TRUE(settled());
}

// A tenant can write an object whose JSON is larger than any sensible limit, because the server
// writes six bytes for "<".
TEST_F(ReflectorTest, AnObjectThatIsTooLargeEndsNeitherTheListNorTheWatch) {
  options_.max_object_bytes = 64U << 10U;
  const auto put_large = [&](char fill) {
    server_.put("/api/v1/things/large",
                {{"spec", {{"value", std::string(200U << 10U, fill)}, {"nodeName", "gpu-a"}}}});
  };
  for (int i = 0; i < 30; ++i) {
    server_.set_thing(fmt::format("t{:02}", i), "v");
  }
  put_large('x');
  start();
  ASSERT_TRUE(wait([&] { return sink_.syncs == 1 && server_.watches() > 0; }));
  EXPECT_EQ(sink_.things.size(), 30U);
  EXPECT_THAT(sink_.log, Contains("?large@gpu-a"));
  EXPECT_EQ(reflector_->counts().unreadable, 1U);

  sink_.log.clear();
  put_large('y');
  server_.set_thing("t00", "changed");
  ASSERT_TRUE(wait([&] { return sink_.log.size() >= 2; }));
  EXPECT_THAT(sink_.log, ElementsAre("?large@gpu-a", "+t00=changed"));

  sink_.log.clear();
  server_.put("/api/v1/things/large", {{"spec", {{"value", "small"}}}});
  put_large('z');
  server_.remove("/api/v1/things/large");
  ASSERT_TRUE(wait([&] { return sink_.log.size() >= 3; }));
  EXPECT_THAT(sink_.log, ElementsAre("+large=small", "?large@gpu-a", "-large"));
  ASSERT_TRUE(settled());
  EXPECT_EQ(reflector_->counts().lists, 1U);
  EXPECT_EQ(reflector_->counts().watches, 1U);
  EXPECT_EQ(reflector_->counts().failures, 0U);
}

TEST_F(ReflectorTest, SeveralObjectsThatAreTooLargeMayBeTheWholeList) {
  options_.max_object_bytes = 64U << 10U;
  for (const char* name : {"a", "b", "c"}) {
    server_.set_thing(name, std::string(100U << 10U, 'x'));
  }
  start();
  ASSERT_TRUE(wait([&] { return sink_.syncs == 1 && server_.watches() > 0; }));
  EXPECT_THAT(sink_.log, ElementsAre("?a", "?b", "?c"));
  EXPECT_EQ(reflector_->counts().failures, 0U);
  server_.set_thing("b", "small");
  ASSERT_TRUE(wait([&] { return sink_.things.size() == 1; }));
}

TEST_F(ReflectorTest, RelistsAfterAnEventThatIsTooLargeAndHasNoIdentity) {
  options_.max_object_bytes = 1000;
  server_.set_thing("a", "1");
  start();
  ASSERT_TRUE(settled());
  server_.write_raw("{\"type\":\"MODIFIED\",\"object\":{\"x\":\"" + std::string(2000, 'x') + "\"}}\n");
  ASSERT_TRUE(wait([&] { return reflector_->counts().lists == 2; }));
}

TEST_F(ReflectorTest, PagesBecomeSmallerAndLargerWithTheObjects) {
  options_.max_object_bytes = 512U << 10U;
  for (int i = 0; i < 30; ++i) {
    server_.set_thing(fmt::format("large{:02}", i), std::string(60U << 10U, 'x'));
  }
  for (int i = 0; i < 600; ++i) {
    server_.set_thing(fmt::format("small{:03}", i), "v");
  }
  start();
  ASSERT_TRUE(wait([&] { return sink_.syncs == 1; }));
  EXPECT_EQ(sink_.things.size(), 630U);
  EXPECT_EQ(reflector_->counts().lists, 1U);
  EXPECT_EQ(reflector_->counts().failures, 0U);
  std::vector<int> limits;
  for (const auto& request : server_.seen) {
    if (const std::size_t at = request.target.find("limit="); at != std::string::npos) {
      limits.push_back(std::stoi(request.target.substr(at + 6)));
    }
  }
  EXPECT_THAT(limits, Contains(Le(4))) << "no small page for large objects";
  EXPECT_GE(limits.back(), 100) << "no larger pages for small objects";
}

TEST_F(ReflectorTest, TheSinkIsNotCalledAfterStop) {
  server_.set_thing("a", "1");
  start();
  ASSERT_TRUE(settled());
  reflector_->stop();
  server_.set_thing("a", "2");
  loop_.run_until([] { return false; }, 20ms);
  EXPECT_THAT(sink_.log, ElementsAre("+a=1"));
}

// Stops its reflector after `most` calls.
class StoppingSink : public RecordingSink {
 public:
  void keep(const ObjectMeta& meta) override {
    RecordingSink::keep(meta);
    stop_at_last();
  }
  void forget(const ObjectMeta& meta) override {
    RecordingSink::forget(meta);
    stop_at_last();
  }
  std::unique_ptr<Reflector> reflector;
  std::size_t most = 1;

 private:
  void stop_at_last() {
    if (log.size() == most) {
      reflector->stop();
    }
  }
};

TEST_F(ReflectorTest, TheSinkItselfMayStopIt) {
  options_.page_items = 3;
  for (const char* name : {"a", "b", "c", "d"}) {
    server_.set_thing(name, "1");
  }
  for (const std::size_t most : {2U, 6U}) {
    StoppingSink sink;
    sink.most = most;
    sink.reflector = std::make_unique<Reflector>(client_, options_, sink);
    sink.reflector->start();
    // The first stops in the middle of a page, the second in the middle of events that arrive
    // together.
    ASSERT_TRUE(wait([&] { return sink.log.size() == most || server_.watches() > 0; }));
    for (int i = 0; most > 4 && i < 8; ++i) {
      server_.set_thing("e", std::to_string(i));
    }
    ASSERT_TRUE(wait([&] { return sink.log.size() == most; }));
    loop_.run_until([] { return false; }, 20ms);
    EXPECT_EQ(sink.log.size(), most);
    EXPECT_EQ(sink.syncs, most > 4 ? 1 : 0);
    EXPECT_EQ(server_.watches(), 0U);
  }
}

TEST_F(ReflectorTest, BacksOffBetweenRelistsWhenEveryWatchIsRefused) {
  server_.intercept = [&](const FakeApiServer::Seen& request) -> std::optional<http::Response> {
    if (request.target.find("watch=1") != std::string::npos) {
      return http::Response{.status = 410, .body = status_json(410, "Expired", "too old")};
    }
    return std::nullopt;
  };
  options_.backoff = {.first = 10ms, .cap = 10s};
  start();
  ASSERT_TRUE(wait([&] { return lists() == 4; }));
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(wait([&] { return lists() == 6; }));
  EXPECT_GE(std::chrono::steady_clock::now() - began, 100ms)
      << "the waits are 80 and 160 ms, or half of that";
}

// Random changes, broken connections, repetitions, compactions, stalls and errors. Whenever it is
// quiet, and at the end, the sink must equal the server's state. RecordingSink checks that nothing
// is delivered twice.
TEST_F(ReflectorTest, ConvergesAfterAnyMixOfFaults) {
  options_.page_items = 5;
  options_.idle = 30ms;
  std::mt19937_64 random(2026);
  const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
  server_.intercept = [&](const FakeApiServer::Seen&) -> std::optional<http::Response> {
    if (chance(10)) {
      const int code = std::vector{500, 503, 410, 429, 504}[random() % 5];
      return http::Response{.status = code, .body = status_json(code, "Fault", "injected by the test")};
    }
    return std::nullopt;
  };
  start();
  std::uint64_t settled_times = 0;
  for (int round = 0; round < 400; ++round) {
    for (std::uint64_t i = random() % 8; i > 0; --i) {
      const std::string name = fmt::format("t{}", random() % 20);
      chance(30) ? server_.remove_thing(name) : server_.set_thing(name, std::to_string(random() % 1000));
    }
    switch (random() % 8) {
      case 0:
        server_.cut_watches();
        break;
      case 1:
        server_.repeat_lines(random() % 4);
        break;
      case 2:
        server_.compact();
        break;
      case 3:
        server_.write_raw(R"({"type":"MODIFIED","object":{"metadata":{"na)");
        server_.cut_watches();
        break;
      case 4:
        server_.end_watches();
        break;
      case 5:
        server_.stall();
        break;
      case 6:
        server_.bookmark();
        break;
      default:
        break;
    }
    loop_.run_until([] { return false; }, std::chrono::microseconds(random() % 3000));
    if (chance(10)) {
      ASSERT_TRUE(wait([&] { return sink_.things == server_.things(); })) << "round " << round;
      ++settled_times;
    }
  }
  ASSERT_TRUE(wait([&] { return sink_.things == server_.things(); }));
  EXPECT_GT(settled_times, 20U);
  EXPECT_GT(reflector_->counts().expired, 5U);
  EXPECT_GT(reflector_->counts().repeated, 5U);
}

TEST(ObjectTracker, AcceptsEarlierVersionsAfterAListOfARestoredServer) {
  ObjectTracker tracker;
  std::vector<std::string> gone;
  const ObjectTracker::Forget forget = [&](const ObjectMeta& meta) { gone.push_back(meta.name); };
  const auto meta = [](std::string name, std::uint64_t version) {
    return ObjectMeta{.namespace_name = "n", .name = std::move(name), .uid = "odd uid", .version = version};
  };
  tracker.begin_list();
  EXPECT_EQ(tracker.listed(meta("a", 100), forget), ObjectTracker::Verdict::kKeep);
  tracker.end_list(100, forget);
  tracker.begin_list();
  EXPECT_EQ(tracker.listed(meta("a", 50), forget), ObjectTracker::Verdict::kKeep);
  tracker.end_list(60, forget);
  EXPECT_EQ(tracker.event(WatchType::kModified, meta("a", 61), forget), ObjectTracker::Verdict::kKeep);
  EXPECT_THAT(gone, ::testing::IsEmpty());
}

TEST(CompactUid, ReturnsTheOriginalText) {
  for (const char* text :
       {"19cb2748-6ab8-4bf3-bd2a-617788b14b91", "00000000-0000-0000-0000-000000000000", "odd", "",
        "19CB2748-6AB8-4BF3-BD2A-617788B14B91", "19cb2748x6ab8-4bf3-bd2a-617788b14b91"}) {
    const CompactUid uid{std::string_view(text)};
    EXPECT_EQ(uid.text(), text);
    EXPECT_TRUE(uid.is(text));
    EXPECT_FALSE(uid.is("19cb2748-6ab8-4bf3-bd2a-617788b14b92"));
  }
}

}  // namespace
}  // namespace tessera::kube
