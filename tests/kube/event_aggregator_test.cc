#include "kube/event_aggregator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_reader.h"

namespace tessera::kube {
namespace {

using namespace std::chrono_literals;
using Kind = EventWrite::Kind;
using Outcome = EventAggregator::Outcome;
using ::testing::HasSubstr;
using ::testing::StartsWith;

EventNote note(const std::string& pod, const std::string& message = "no GPU has 8GiB free") {
  return {
      .about = {.api_version = "v1", .kind = "Pod", .namespace_name = "ml", .name = pod, .uid = "u-" + pod},
      .warning = true,
      .reason = "GpuShort",
      .message = message};
}

class EventAggregatorTest : public ::testing::Test {
 protected:
  EventAggregatorOptions options_{.component = "tessera-extender", .instance = "pod-1"};
  ManualClock clock_;
};

TEST_F(EventAggregatorTest, CreatesACompleteEvent) {
  EventAggregator events(options_, clock_);
  ASSERT_TRUE(events.record(note("train-7")));
  const auto write = events.next();
  ASSERT_TRUE(write);
  EXPECT_EQ(write->kind, Kind::kCreate);
  EXPECT_EQ(write->namespace_name, "ml");
  EXPECT_THAT(write->name, StartsWith("train-7."));
  EXPECT_THAT(write->body, HasSubstr(R"("involvedObject":{"apiVersion":"v1","kind":"Pod","name":"train-7",)"
                                     R"("namespace":"ml","uid":"u-train-7"})"));
  EXPECT_THAT(write->body,
              HasSubstr(R"("type":"Warning","reason":"GpuShort","message":"no GPU has 8GiB free")"));
  EXPECT_THAT(write->body, HasSubstr(R"("count":1)"));
  EXPECT_FALSE(events.next());
}

TEST_F(EventAggregatorTest, CountsEqualEventsInOneObject) {
  EventAggregator events(options_, clock_);
  events.record(note("train-7"));
  const auto create = *events.next();
  events.done(create, Outcome::kDone);
  clock_.advance(1s);
  events.record(note("train-7"));
  clock_.advance(1s);
  events.record(note("train-7"));
  const auto update = events.next();
  ASSERT_TRUE(update);
  EXPECT_EQ(update->kind, Kind::kUpdate);
  EXPECT_EQ(update->name, create.name);
  EXPECT_THAT(update->body, HasSubstr(R"("count":3,"lastTimestamp":"2026-01-01T00:00:02Z")"));
  EXPECT_FALSE(events.next()) << "two repetitions in the queue must be one request";
}

TEST_F(EventAggregatorTest, CreatesANewObjectWhenTheOldOneHasExpired) {
  EventAggregator events(options_, clock_);
  events.record(note("train-7"));
  const auto create = *events.next();
  events.record(note("train-7"));
  const auto update = *events.next();
  events.done(update, Outcome::kGone);
  const auto again = events.next();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->kind, Kind::kCreate);
  EXPECT_NE(again->name, create.name);
  EXPECT_THAT(again->body, HasSubstr(R"("count":1)"));
}

TEST_F(EventAggregatorTest, CreatesANewObjectAfterTheWindow) {
  EventAggregator events(options_, clock_);
  events.record(note("train-7"));
  events.next();
  clock_.advance(11min);
  events.record(note("train-7"));
  EXPECT_EQ(events.next()->kind, Kind::kCreate);
}

TEST_F(EventAggregatorTest, CombinesTooManyDifferentMessages) {
  EventAggregator events(options_, clock_);
  for (int i = 0; i < 20; ++i) {
    events.record(note("train-7", "node gpu-" + std::to_string(i) + " is short"));
  }
  int creates = 0;
  std::string last;
  while (const auto write = events.next()) {
    creates += write->kind == Kind::kCreate ? 1 : 0;
    last = write->body;
  }
  EXPECT_EQ(creates, 11);
  EXPECT_THAT(last, HasSubstr("(combined from similar events): node gpu-19 is short"));
  EXPECT_THAT(last, HasSubstr(R"("count":10)"));
}

TEST_F(EventAggregatorTest, LimitsTheRateOfEventsPerObject) {
  options_.burst = 3;
  options_.refill = 60s;
  EventAggregator events(options_, clock_);
  const auto recorded = [&] {
    const bool accepted = events.record(note("noisy"));
    while (events.next()) {
    }
    return accepted;
  };
  EXPECT_TRUE(recorded());
  EXPECT_TRUE(recorded());
  EXPECT_TRUE(recorded());
  EXPECT_FALSE(recorded());
  EXPECT_TRUE(events.record(note("quiet"))) << "the limit must not affect other objects";
  clock_.advance(61s);
  EXPECT_TRUE(recorded());
  EXPECT_FALSE(recorded());
  EXPECT_EQ(events.counts().silenced, 2U);
}

TEST_F(EventAggregatorTest, DropsAndCountsEventsWhenTheQueueIsFull) {
  options_.queue = 10;
  EventAggregator events(options_, clock_);
  for (int i = 0; i < 15; ++i) {
    EXPECT_EQ(events.record(note("p" + std::to_string(i))), i < 10);
  }
  EXPECT_EQ(events.waiting(), 10U);
  EXPECT_EQ(events.counts().dropped_full, 5U);
}

TEST_F(EventAggregatorTest, MemoryStaysBoundedForAnyNumberOfObjects) {
  options_.remembered = 100;
  EventAggregator events(options_, clock_);
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(events.record(note("p" + std::to_string(i))));
    ASSERT_TRUE(events.next()) << i;
  }
}

TEST_F(EventAggregatorTest, NamesAndMessagesFitTheServersLimits) {
  EventAggregator events(options_, clock_);
  std::string message(1023, 'x');
  message += "\u20ac\u20ac";
  events.record(note(std::string(253, 'p'), message));
  const auto write = *events.next();
  EXPECT_LE(write.name.size(), 253U);
  const auto body = parse_json(write.body);
  ASSERT_TRUE(body);
  EXPECT_EQ(*JsonReader(*body, "").text("message"), std::string(1023, 'x'))
      << "must be truncated at a character boundary";
}

TEST_F(EventAggregatorTest, EventsOfNodesAreInTheDefaultNamespace) {
  EventAggregator events(options_, clock_);
  events.record(
      {.about = {.kind = "Node", .name = "gpu-a"}, .warning = false, .reason = "Ok", .message = "m"});
  const auto write = *events.next();
  EXPECT_EQ(write.namespace_name, "default");
  EXPECT_THAT(write.body, HasSubstr(R"("involvedObject":{"apiVersion":"v1","kind":"Node","name":"gpu-a"})"));
}

}  // namespace
}  // namespace tessera::kube
