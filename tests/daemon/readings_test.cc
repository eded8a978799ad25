#include "daemon/readings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

namespace tessera::daemon {
namespace {

using ::testing::HasSubstr;

TEST(Readings, AddsUpCountersWithTheSameNameAndLabels) {
  Readings readings;
  readings.counter("b_total", "B", 2, {{"kind", "x"}});
  readings.counter("b_total", "B", 1, {{"kind", "y"}});
  readings.gauge("a", "A", 7);
  readings.counter("b_total", "B", 3, {{"kind", "x"}});
  const std::vector<Reading> all = readings.take();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "a");
  EXPECT_EQ(all[1].value, 5);
  EXPECT_EQ(all[2].value, 1);
  EXPECT_TRUE(readings.take().empty());
}

TEST(Readings, AreWrittenOncePerMetric) {
  Readings readings;
  readings.counter("b_total", "How many", 2, {{"kind", "x"}});
  readings.counter("b_total", "How many", 1, {{"kind", "y"}});
  const prometheus::Registry registry;
  EXPECT_EQ(metrics_text(registry, readings.take()),
            "# HELP b_total How many\n# TYPE b_total counter\n"
            "b_total{kind=\"x\"} 2\nb_total{kind=\"y\"} 1\n");
}

TEST(Readings, DescribeAServer) {
  Readings readings;
  readings.add_server("tessera_connections", {.connections = 3, .accepted = 9});
  const prometheus::Registry registry;
  const std::string text = metrics_text(registry, readings.take());
  EXPECT_THAT(text, HasSubstr("\ntessera_connections 3\n"));
  EXPECT_THAT(text, HasSubstr("\ntessera_connections_total 9\n"));
}

}  // namespace
}  // namespace tessera::daemon
