#include "extender/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "extender/flags.h"

namespace tessera::extender {
namespace {

using ::testing::HasSubstr;

daemon::Environment no_environment() {
  return [](const char*) { return std::nullopt; };
}

Result<Config> from_yaml(std::string_view yaml) {
  Config config;
  TRY(apply_yaml(yaml, "f.yaml", config));
  TRY(check(config));
  return config;
}

TEST(Config, UsesDefaultsForAnEmptyFile) {
  const Result<Config> config = from_yaml("");
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->port, 39999);
  EXPECT_EQ(config->address, "127.0.0.1");
}

TEST(Config, ReadsEverySetting) {
  const Result<Config> config = from_yaml(R"(
attach: service
listen: 0.0.0.0:12345
health: :12346
log: {level: debug, format: json}
unit: 256MiB
resources: {prefix: example.com, whole: nvidia.com/gpu}
policies: {shared: spread, whole: best_effort}
scores: {step: 5}
lease: {name: l, namespace: n, duration: 20s, renewDeadline: 12s, retryPeriod: 3s}
limits: {bindTimeout: 1500ms, bindsAtOnce: 10, connections: 20, body: 8Mi}
typicalPods:
- {memory: 8, cpu: 500m, count: 3}
- {gpus: 8, cpu: 64, models: [A100]}
)");
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->attach, Attach::kService);
  EXPECT_EQ(config->address, "0.0.0.0");
  EXPECT_EQ(config->port, 12345);
  EXPECT_EQ(config->health_port, 12346);
  EXPECT_EQ(config->log.level, log::Level::kDebug);
  EXPECT_EQ(config->unit.in_mib(), 256U);
  EXPECT_EQ(config->resources.prefix, "example.com");
  EXPECT_EQ(config->share_policy, alloc::Policy::kSpread);
  EXPECT_EQ(config->whole_policy, alloc::Policy::kBestEffort);
  EXPECT_EQ(config->score_step, 5);
  EXPECT_EQ(config->lease_duration, std::chrono::seconds(20));
  EXPECT_EQ(config->bind_timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(config->max_body_bytes, 8U << 20U);
  ASSERT_EQ(config->typical_pods.size(), 2U);
  EXPECT_EQ(config->typical_pods[0],
            (TypicalPodSpec{.units = 8, .gpus = 1, .cpu_milli = 500, .models = {}, .count = 3}));
  EXPECT_EQ(config->typical_pods[1].gpus, 8);
}

TEST(Config, NamesFileLineColumnAndSettingOfAMistake) {
  const std::pair<const char*, const char*> cases[] = {
      {"listen: 1.2.3.4:99999", "f.yaml:1:9: listen is"},
      {"\nlog:\n  level: loud", "f.yaml:3:10: log.level"},
      {"polices: {}", "f.yaml:1:1: polices is not a setting; there are attach"},
      {"policies: {shared: ring}", "policies.shared: \"ring\" is a policy for whole GPUs"},
      {"policies: {whole: binpack}", "policies.whole: \"binpack\" is a policy for shares"},
      {"policies: {whole: static}", "needs policies.staticSets"},
      {"unit: 3 bananas", "f.yaml:1:7: unit"},
      {"limits: {bindTimeout: 10}", "f.yaml:1:23: limits.bindTimeout is \"10\""},
      {"limits: {bindTimeout: 6s}", "less than lease.duration - lease.renewDeadline"},
      {"typicalPods: [{cpu: 3}]", "f.yaml:1:15: typicalPods[0] needs memory"},
      {"attach: maybe", "not sidecar or service"},
      {"attach: sidecar\nattach: service", "f.yaml:2:1: attach is set twice"},
      {"a: [", "f.yaml:"},
      {"[1]", "must be a mapping"},
      {"tls: {certificate: a}", "certificate and key"},
      {"lease: {duration: 5s}", "retryPeriod < renewDeadline < duration"},
  };
  for (const auto& [yaml, wanted] : cases) {
    const Result<Config> config = from_yaml(yaml);
    ASSERT_FALSE(config) << yaml;
    EXPECT_THAT(config.error().text(), HasSubstr(wanted));
  }
}

TEST(Config, IgnoresInvalidEnvironmentVariablesOfTheOriginal) {
  Config config;
  const log::Level level = config.log.level;
  apply_environment(
      [](const char* name) {
        return std::optional<std::string>(std::string_view(name) == "PORT" ? "x" : "loud");
      },
      config);
  EXPECT_EQ(config.log.level, level);
  EXPECT_EQ(config.port, Config().port);
}

TEST(Config, ReadsTheEnvironmentOfTheOriginalAndPrefersFlags) {
  const daemon::Environment environment = [](const char* name) -> std::optional<std::string> {
    const std::string_view which = name;
    return which == "PORT"         ? std::optional<std::string>("12345")
           : which == "LOG_LEVEL"  ? std::optional<std::string>("warn")
           : which == "THREADNESS" ? std::optional<std::string>("8")
                                   : std::nullopt;
  };
  const char* plain[] = {"tessera-extender"};
  const auto line = std::get<CommandLine>(parse_command_line(1, plain, environment));
  const Result<Config> config = line.load();
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->port, 12345);
  EXPECT_EQ(config->address, "0.0.0.0");
  EXPECT_EQ(config->log.level, log::Level::kWarn);

  const char* flags[] = {"tessera-extender", "--listen", "127.0.0.1:7", "--log-level", "error"};
  const Result<Config> with_flags = std::get<CommandLine>(parse_command_line(5, flags, environment)).load();
  ASSERT_TRUE(with_flags) << with_flags.error().text();
  EXPECT_EQ(with_flags->port, 7);
  EXPECT_EQ(with_flags->log.level, log::Level::kError);
}

TEST(Config, TreatsAnUnknownFlagAsUsageErrorAndNamesTheFlagOfABadValue) {
  const char* unknown[] = {"tessera-extender", "--nonsense"};
  EXPECT_EQ(std::get<int>(parse_command_line(2, unknown, no_environment())), 2);
  const char* wrong[] = {"tessera-extender", "--unit", "stone"};
  const Result<Config> config = std::get<CommandLine>(parse_command_line(3, wrong, no_environment())).load();
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().text(), HasSubstr("--unit"));
}

TEST(Config, NamesLineAndColumnOfMistakesThatValidationFinds) {
  const std::string file = ::testing::TempDir() + "extender.yaml";
  const auto error_of = [&](const std::string& yaml, std::vector<const char*> flags = {}) {
    EXPECT_TRUE(write_file(file, yaml));
    flags.insert(flags.begin(), {"tessera-extender", "--config", file.c_str()});
    const auto parsed = parse_command_line(static_cast<int>(flags.size()), flags.data(), no_environment());
    const Result<Config> config = std::get<CommandLine>(parsed).load();
    return config ? "" : config.error().text();
  };
  EXPECT_EQ(error_of("unit: GiB\npolicies:\n  shared: ring\n"),
            file + ":3:3: policies.shared: \"ring\" is a policy for whole GPUs; use binpack, spread or fgd");
  EXPECT_THAT(error_of("\n\nlimits: {bindTimeout: 6s}\n"),
              ::testing::StartsWith(file + ":3:10: limits.bindTimeout: must be less than"));
  EXPECT_THAT(error_of("lease:\n  duration: 1s\n"), ::testing::StartsWith(file + ":1:1: lease: retryPeriod"));
  EXPECT_THAT(error_of("tls: {key: k}\n"), ::testing::StartsWith(file + ":1:1: tls: certificate and key"));
  EXPECT_THAT(error_of("policies: {shared: fgd}\n", {"--policy-shared", "ring"}),
              ::testing::StartsWith("--policy-shared: policies.shared: "));
  EXPECT_THAT(error_of("resources:\n  prefix: ''\n"),
              ::testing::StartsWith(file + ":2:3: resources.prefix: \"\" is not a domain"));
  EXPECT_THAT(error_of("resources: {prefix: Aliyun/com}\n"), HasSubstr("is not a domain like aliyun.com"));
}

TEST(Config, ReadsTheSchedulerLeaseAsNamespaceAndName) {
  const Result<Config> config = from_yaml("schedulerLease: gpu/tessera-scheduler");
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->scheduler_lease_namespace, "gpu");
  EXPECT_EQ(config->scheduler_lease_name, "tessera-scheduler");
  for (const char* wrong : {"tessera-scheduler", "/x", "x/", "a/b/c"}) {
    const Result<Config> refused = from_yaml(std::string("schedulerLease: ") + wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_THAT(refused.error().text(), HasSubstr("not NAMESPACE/NAME of a Lease"));
  }
  EXPECT_FALSE(from_yaml("{attach: service, schedulerLease: gpu/x}"));
}

TEST(Config, ReloadsPoliciesAndNamesSettingsThatNeedARestart) {
  Config running;
  Config next;
  next.share_policy = alloc::Policy::kSpread;
  next.score_step = 3;
  EXPECT_TRUE(apply_reloadable(next, running).empty());
  EXPECT_EQ(running.share_policy, alloc::Policy::kSpread);
  EXPECT_EQ(running.score_step, 3);
  next.port = 1;
  next.unit = alloc::Unit::mib();
  EXPECT_EQ(apply_reloadable(next, running), (std::vector<std::string>{"listen", "unit"}));
  EXPECT_EQ(running.port, 39999);
}

TEST(Config, AcceptsOnlyResourceNamesThatKubernetesAccepts) {
  const std::pair<const char*, const char*> cases[] = {
      {"resources: {whole: gpu}", "resources.whole: \"gpu\" is not a resource like nvidia.com/gpu"},
      {"resources: {whole: nvidia.com/}", "is not a resource"},
      {"resources: {whole: aliyun.com/gpu-mem}", "already names another resource"},
      {"resources: {prefix: Aliyun}", "is not a domain"},
  };
  for (const auto& [yaml, wanted] : cases) {
    const Result<Config> config = from_yaml(yaml);
    ASSERT_FALSE(config) << yaml;
    EXPECT_THAT(config.error().text(), HasSubstr(wanted)) << yaml;
  }
  EXPECT_TRUE(from_yaml("resources: {prefix: example.com, whole: nvidia.com/gpu}"));
}

}  // namespace
}  // namespace tessera::extender
