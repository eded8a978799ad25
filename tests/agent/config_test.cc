#include "agent/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/temporary_directory.h"
#include "agent/flags.h"
#include "base/file.h"

namespace tessera::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

daemon::Environment node_in_environment() {
  return [](const char* name) -> std::optional<std::string> {
    return std::string(name) == "NODE_NAME" ? std::optional<std::string>("from-env") : std::nullopt;
  };
}

Result<Config> from_yaml(std::string_view yaml) {
  Config config;
  config.node_name = "gpu-a";
  TRY(apply_yaml(yaml, "f.yaml", config));
  TRY(complete(config));
  return config;
}

std::optional<Config> from_flags(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "tessera-agent");
  auto line = parse_command_line(static_cast<int>(arguments.size()), arguments.data(), node_in_environment());
  return std::holds_alternative<CommandLine>(line) ? std::optional(std::get<CommandLine>(line).config)
                                                   : std::nullopt;
}

TEST(AgentConfig, HasTheDocumentedDefaults) {
  const auto config = from_yaml("");
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->address, "0.0.0.0");
  EXPECT_EQ(config->port, 39997);
  EXPECT_EQ(config->unit.text(), "GiB");
  EXPECT_FALSE(config->subtract_driver_memory);
  EXPECT_EQ(config->strategy, StrategyKind::kEnv);
  EXPECT_EQ(config->driver_libraries, LibraryPlace::kLinkerDirectories);
  EXPECT_EQ(config->memory.policy, MemoryPolicy::kReport);
  EXPECT_EQ(config->memory.grace, 30s);
  EXPECT_EQ(config->memory.slack_bytes, 0U);
  EXPECT_EQ(config->sample_every, 10s);
  EXPECT_TRUE(config->node_labels && config->legacy_annotations && config->node_condition);
  EXPECT_TRUE(config->unhealthy_config_map);
  EXPECT_EQ(config->unhealthy_config_map_namespace, "kube-system");
  EXPECT_EQ(config->paths.driver_here(), "/");
  EXPECT_EQ(config->paths.dev_here(), "/dev");
}

TEST(AgentConfig, ReadsEverySetting) {
  const auto config = from_yaml(R"(
nodeName: gpu-b
listen: 127.0.0.1:1234
log: {level: debug, format: json}
unit: 256MiB
subtractDriverMemory: true
resources: {prefix: example.com, whole: nvidia.com/gpu}
machine: dgx1v
strategy: cdi
driverLibraries: env
xids: ignored=62;fatal=94
nodeLabels: false
legacyAnnotations: false
nodeCondition: false
unhealthyConfigMap: {write: false, namespace: x}
memory: {policy: evict, grace: 2m, slack: 512Mi}
sampleEvery: 5s
paths: {driverRoot: /run/nvidia/driver/, driverRootHere: /driver, devRoot: /d, devRootHere: /e, sysfsRoot: /s,
        procRoot: /p, kubeletDir: /k, cdiDir: /c, stateDir: /t, nvmlLibrary: /l}
)");
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->node_name, "gpu-b");
  EXPECT_EQ(config->port, 1234);
  EXPECT_EQ(config->unit.in_mib(), 256U);
  EXPECT_TRUE(config->subtract_driver_memory);
  EXPECT_EQ(config->resources.whole, "nvidia.com/gpu");
  EXPECT_EQ(config->machine, "dgx1v");
  EXPECT_EQ(config->strategy, StrategyKind::kCdi);
  EXPECT_EQ(config->driver_libraries, LibraryPlace::kLibraryPath);
  EXPECT_EQ(config->xids.classify(62), gpu::XidClass::kIgnored);
  EXPECT_EQ(config->xids.classify(94), gpu::XidClass::kFatal);
  EXPECT_FALSE(config->node_labels || config->legacy_annotations || config->node_condition);
  EXPECT_FALSE(config->unhealthy_config_map);
  EXPECT_EQ(config->memory.policy, MemoryPolicy::kEvict);
  EXPECT_EQ(config->memory.grace, 2min);
  EXPECT_EQ(config->memory.slack_bytes, std::uint64_t{512} << 20U);
  EXPECT_EQ(config->sample_every, 5s);
  EXPECT_EQ(config->paths.driver_root, "/run/nvidia/driver");
  EXPECT_EQ(config->paths.driver_here(), "/driver");
  EXPECT_EQ(config->paths.proc_root, "/p");
}

TEST(AgentConfig, NamesFileLineAndColumnOfAMistake) {
  struct Case {
    const char* yaml;
    const char* says;
  };
  for (const Case& one :
       {Case{"unit: GiB\nstrategy: magic", "f.yaml:2:11: strategy"}, Case{"stratgy: env", "stratgy"},
        Case{"memory: {policy: kill}", "use ignore, report or evict"},
        Case{"memory: {grace: soon}", "memory.grace"}, Case{"sampleEvery: 10ms", "at least 1s"},
        Case{"paths: {cdiDir: relative}", "not an absolute path"},
        Case{"resources: {prefix: ''}", "resources.prefix"},
        Case{"resources: {whole: gpu}", "resources.whole: \"gpu\" is not a resource"},
        Case{"resources: {whole: aliyun.com/gpu-mem}", "already names another resource"},
        Case{"driverLibraries: both", "linker"}, Case{"xids: ignored=x", "XID"},
        Case{"unit: [", "f.yaml:"}}) {
    const auto config = from_yaml(one.yaml);
    ASSERT_FALSE(config) << one.yaml;
    EXPECT_THAT(config.error().text(), HasSubstr(one.says)) << one.yaml;
  }
}

TEST(AgentConfig, FlagsWinOverTheFileAndTheFileOverTheEnvironment) {
  EXPECT_EQ(from_flags({})->node_name, "from-env");
  const TemporaryDirectory directory;
  const std::string file = directory / "f.yaml";
  ASSERT_TRUE(write_file(file, "nodeName: from-file\nmemory: {policy: evict, grace: 1m}\n"));
  const auto config =
      from_flags({"--config", file.c_str(), "--memory-policy", "ignore", "--strategy", "cdi"});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->node_name, "from-file");
  EXPECT_EQ(config->memory.policy, MemoryPolicy::kIgnore);
  EXPECT_EQ(config->memory.grace, 1min);
  EXPECT_EQ(config->strategy, StrategyKind::kCdi);
}

TEST(AgentConfig, NamesLineAndColumnOfMistakesThatValidationFinds) {
  const TemporaryDirectory directory;
  const std::string file = directory / "agent.yaml";
  const auto error_of = [&](const std::string& yaml, std::vector<const char*> arguments = {}) {
    EXPECT_TRUE(write_file(file, yaml));
    arguments.insert(arguments.begin(), {"tessera-agent", "--config", file.c_str()});
    ::testing::internal::CaptureStderr();
    const auto line =
        parse_command_line(static_cast<int>(arguments.size()), arguments.data(), node_in_environment());
    std::string printed = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(std::holds_alternative<int>(line)) << yaml;
    return printed;
  };
  EXPECT_EQ(error_of("unit: GiB\nsampleEvery: 10ms\n"),
            "tessera-agent: " + file +
                ":2:1: sampleEvery: must be at least 1s; each sample asks the driver about every GPU\n");
  EXPECT_THAT(
      error_of("paths:\n  cdiDir: relative\n"),
      ::testing::StartsWith("tessera-agent: " + file + ":2:3: paths.cdiDir: \"relative\" is not an abs"));
  EXPECT_THAT(error_of("resources: {whole: gpu}\n"),
              ::testing::StartsWith("tessera-agent: " + file + ":1:13: resources.whole: \"gpu\" is not a"));
  EXPECT_THAT(error_of("sampleEvery: 5s\n", {"--sample-every", "10ms"}),
              ::testing::StartsWith("tessera-agent: --sample-every: sampleEvery: must be at least 1s"));
}

TEST(AgentConfig, AcceptsZeroMemorySlack) {
  const auto config = from_flags({"--memory-slack", "0"});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->memory.slack_bytes, 0U);
  EXPECT_FALSE(from_yaml("memory: {slack: -1}"));
}

// flags.cc turns each flag into a setting, which config.cc must be able to read.
TEST(AgentConfig, AcceptsEveryFlag) {
  const auto config = from_flags({"--node-name",
                                  "n",
                                  "--kubeconfig",
                                  "/x",
                                  "--listen",
                                  "127.0.0.1:1",
                                  "--log-level",
                                  "warn",
                                  "--log-format",
                                  "json",
                                  "--unit",
                                  "MiB",
                                  "--subtract-driver-memory",
                                  "true",
                                  "--resource-prefix",
                                  "example.com",
                                  "--resource-whole",
                                  "nvidia.com/gpu",
                                  "--machine",
                                  "it's",
                                  "--strategy",
                                  "devices",
                                  "--driver-libraries",
                                  "env",
                                  "--xids",
                                  "ignored=all",
                                  "--node-labels",
                                  "false",
                                  "--legacy-annotations",
                                  "false",
                                  "--node-condition",
                                  "false",
                                  "--unhealthy-config-map",
                                  "false",
                                  "--unhealthy-config-map-namespace",
                                  "x",
                                  "--memory-policy",
                                  "evict",
                                  "--memory-grace",
                                  "1m",
                                  "--memory-slack",
                                  "1Gi",
                                  "--sample-every",
                                  "1m",
                                  "--nvml-library",
                                  "/n",
                                  "--driver-root",
                                  "/a",
                                  "--driver-root-ctr-path",
                                  "/b",
                                  "--dev-root",
                                  "/c",
                                  "--dev-root-ctr-path",
                                  "/d",
                                  "--sysfs-root",
                                  "/e",
                                  "--proc-root",
                                  "/f",
                                  "--kubelet-dir",
                                  "/g",
                                  "--cdi-dir",
                                  "/h",
                                  "--state-dir",
                                  "/i"});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->machine, "it's");
  EXPECT_EQ(config->memory.slack_bytes, std::uint64_t{1} << 30U);
  EXPECT_EQ(config->paths.state_dir, "/i");
  EXPECT_EQ(config->paths.dev_here(), "/d");
}

}  // namespace
}  // namespace tessera::agent
