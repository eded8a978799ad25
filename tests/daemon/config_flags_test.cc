#include "daemon/config_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "../base/temporary_directory.h"
#include "base/file.h"

namespace tessera::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr ConfigFlag kFlags[] = {{"--level", "log: {{level: {}}}", "How much to log"},
                                 {"--unit", "unit: {}", "One unit"}};

class ConfigFlagsTest : public ::testing::Test {
 protected:
  std::optional<int> parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    return flags_.parse(static_cast<int>(arguments.size()), arguments.data());
  }

  Status load(Status checked = {}) {
    applied_.clear();
    return flags_.load({.apply = [this](std::string_view yaml, const std::string& name) -> Status {
                          applied_.emplace_back(name, yaml);
                          return {};
                        },
                        .check = [&] { return checked; }});
  }

  CLI::App app_{"A program", "program"};
  ConfigFlags flags_{app_, kFlags, "docs/x.md"};
  std::vector<std::pair<std::string, std::string>> applied_;
};

TEST_F(ConfigFlagsTest, AppliesTheFileBeforeTheFlagsEachTimeItLoads) {
  const TemporaryDirectory directory;
  const std::string file = directory / "f.yaml";
  ASSERT_TRUE(write_file(file, "unit: GiB\n"));
  ASSERT_EQ(parse({"--unit", "it's", "--config", file.c_str()}), std::nullopt);
  EXPECT_TRUE(load());
  EXPECT_THAT(applied_, ElementsAre(Pair(file, "unit: GiB\n"), Pair("--unit", "unit: 'it''s'")));
  ASSERT_TRUE(write_file(file, "unit: MiB\n"));
  EXPECT_TRUE(load());
  EXPECT_THAT(applied_, ElementsAre(Pair(file, "unit: MiB\n"), Pair("--unit", "unit: 'it''s'")));
}

TEST_F(ConfigFlagsTest, AddsThePlaceOfASettingToAnErrorOfValidation) {
  const TemporaryDirectory directory;
  const std::string file = directory / "f.yaml";
  ASSERT_TRUE(write_file(file, "log:\n  level: x\nunit: GiB\n"));
  ASSERT_EQ(parse({"--config", file.c_str(), "--unit", "MiB"}), std::nullopt);
  EXPECT_EQ(load(fail(ErrorCode::kInvalid, "log.level: too loud")).error().text(),
            file + ":2:3: log.level: too loud");
  EXPECT_EQ(load(fail(ErrorCode::kInvalid, "unit: too small")).error().text(), "--unit: unit: too small");
}

TEST_F(ConfigFlagsTest, ReturnsTheExitCodeOfAUsageError) {
  EXPECT_EQ(parse({"--nonsense"}), 2);
  EXPECT_FALSE(flags_.check_only());
  EXPECT_EQ(parse({"--check-config"}), std::nullopt);
  EXPECT_TRUE(flags_.check_only());
}

TEST_F(ConfigFlagsTest, ReportsAMissingFile) {
  ASSERT_EQ(parse({"--config", "/nonexistent/f.yaml"}), std::nullopt);
  EXPECT_THAT(load().error().text(), ::testing::HasSubstr("/nonexistent/f.yaml"));
}

}  // namespace
}  // namespace tessera::daemon
