#include "base/log.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "temporary_directory.h"

namespace tessera {
namespace {

// Sends log lines to a temporary file during a test, and back to standard error afterwards.
class Log : public testing::Test {
 protected:
  void use(log::Level level, log::Format format) {
    ASSERT_TRUE(
        log::configure({.level = level, .format = format, .path = directory_ / "log", .clock = &clock_}));
  }
  void TearDown() override { ASSERT_TRUE(log::configure({})); }
  [[nodiscard]] std::string written() const { return read_file(directory_ / "log").value(); }

  TemporaryDirectory directory_;
  ManualClock clock_;
};

TEST_F(Log, WritesOneTextLinePerEvent) {
  use(log::Level::kInfo, log::Format::kText);
  log::info("bind", {{"pod", "ml/train-7"}, {"gpus", 2}, {"reason", "no room"}, {"empty", ""}});
  log::error("failed", {{"error", Error(ErrorCode::kInvalid, "bad").context("pod a")}});
  EXPECT_EQ(written(),
            "2026-01-01T00:00:00.000000Z INFO  bind pod=ml/train-7 gpus=2 reason=\"no room\" empty=\"\"\n"
            "2026-01-01T00:00:00.000000Z ERROR failed error=\"pod a: bad\"\n");
}

TEST_F(Log, EscapesFieldsInJson) {
  use(log::Level::kDebug, log::Format::kJson);
  log::debug("bind \"x\"", {{"pod", "a\nb"}, {"gpus", 2}, {"ok", true}});
  EXPECT_EQ(written(),
            "{\"ts\":\"2026-01-01T00:00:00.000000Z\",\"level\":\"debug\",\"msg\":\"bind \\\"x\\\"\","
            "\"pod\":\"a\\nb\",\"gpus\":2,\"ok\":true}\n");
}

TEST_F(Log, EscapesALineBreakInAField) {
  use(log::Level::kInfo, log::Format::kText);
  log::info("bind", {{"pod", "a\n2026 INFO forged"}});
  EXPECT_EQ(split(written(), '\n').size(), 2U);  // one line, and the empty part after it
}

TEST_F(Log, OmitsLinesBelowItsLevel) {
  use(log::Level::kWarn, log::Format::kText);
  log::info("not this");
  log::warn("this");
  EXPECT_TRUE(log::enabled(log::Level::kError));
  EXPECT_FALSE(log::enabled(log::Level::kInfo));
  EXPECT_EQ(written(), "2026-01-01T00:00:00.000000Z WARN  this\n");
}

TEST_F(Log, DoesNotMixLinesOfSeveralThreads) {
  use(log::Level::kInfo, log::Format::kText);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 100; ++i) {
          log::info("tick", {{"text", std::string(200, 'x')}});
        }
      });
    }
  }
  const std::string text = written();
  const auto lines = split(text, '\n');
  ASSERT_EQ(lines.size(), 401U);
  for (std::size_t i = 0; i < 400; ++i) {
    ASSERT_EQ(lines[i], lines[0]);
  }
}

TEST_F(Log, KeepsItsConfigurationIfTheNewFileCannotBeOpened) {
  use(log::Level::kInfo, log::Format::kText);
  EXPECT_FALSE(log::configure({.level = log::Level::kOff, .path = "/proc/no/such/log"}));
  log::info("still here");
  EXPECT_NE(written().find("still here"), std::string::npos);
}

TEST(LogOptions, ParsesLevelsAndFormats) {
  EXPECT_EQ(log::parse_level("WARNING").value(), log::Level::kWarn);
  EXPECT_EQ(log::parse_level("debug").value(), log::Level::kDebug);
  EXPECT_EQ(log::parse_level("loud").error().text(),
            "log level \"loud\" is not one of debug, info, warn, error, off");
  EXPECT_EQ(log::parse_format("JSON").value(), log::Format::kJson);
  EXPECT_FALSE(log::parse_format("xml"));
}

}  // namespace
}  // namespace tessera
