#include "webhook/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::webhook {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Result<Config> from_yaml(std::string_view yaml) {
  Config config;
  TRY(apply_yaml(yaml, "f.yaml", config));
  TRY(check(config));
  return config;
}

std::string error_of(std::string_view yaml) {
  const Result<Config> config = from_yaml(yaml);
  return config ? "no error" : config.error().text();
}

TEST(WebhookConfig, UsesDefaultsForAnEmptyFile) {
  const Result<Config> config = from_yaml("");
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->port, 10250);
  EXPECT_EQ(config->lifetime, 24h * 90);
  EXPECT_FALSE(config->has_own_files());
}

TEST(WebhookConfig, ReadsEverySetting) {
  const Result<Config> config = from_yaml(R"(
listen: 127.0.0.1:8443
health: :8080
kubeconfig: /k
log: {level: debug, format: json}
schedulerName: gpus
resources: {prefix: example.com, whole: nvidia.com/gpu}
tls: {certificate: /c, key: /p}
certificates: {namespace: n, service: s, secret: t, configuration: c, lifetime: 2h, settle: 2m, checkEvery: 30s}
limits: {connections: 20, body: 1Mi}
)");
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->address, "127.0.0.1");
  EXPECT_EQ(config->port, 8443);
  EXPECT_EQ(config->health_port, 8080);
  EXPECT_EQ(config->kubeconfig, "/k");
  EXPECT_EQ(config->log.level, log::Level::kDebug);
  EXPECT_EQ(config->scheduler_name, "gpus");
  EXPECT_EQ(config->resources.whole, "nvidia.com/gpu");
  EXPECT_TRUE(config->has_own_files());
  EXPECT_EQ(config->tls_key, "/p");
  EXPECT_EQ(config->namespace_name, "n");
  EXPECT_EQ(config->service, "s");
  EXPECT_EQ(config->secret, "t");
  EXPECT_EQ(config->configuration, "c");
  EXPECT_EQ(config->lifetime, 2h);
  EXPECT_EQ(config->settle, 2min);
  EXPECT_EQ(config->check_every, 30s);
  EXPECT_EQ(config->max_connections, 20U);
  EXPECT_EQ(config->max_body_bytes, 1U << 20U);
}

TEST(WebhookConfig, NamesTheWrongSetting) {
  EXPECT_THAT(error_of("listen: :0"), HasSubstr("listen: needs a port"));
  EXPECT_THAT(error_of("{listen: :1, health: :1}"), HasSubstr("health: port 1 is already used"));
  EXPECT_THAT(error_of("schedulerName: ''"), HasSubstr("schedulerName: must not be empty"));
  EXPECT_THAT(error_of("tls: {key: /p}"), HasSubstr("tls: certificate and key must be set together"));
  EXPECT_THAT(error_of("resources: {prefix: a b}"), HasSubstr("resources"));
  EXPECT_THAT(error_of("certificates: {secret: ''}"), HasSubstr("certificates: service, secret"));
  EXPECT_THAT(error_of("certificates: {lifetime: 3m}"), HasSubstr("certificates.lifetime: settle"));
  EXPECT_THAT(error_of("certificates: {lifetime: 100000h}"), HasSubstr("f.yaml:1:26: certificates.lifetime"));
  EXPECT_THAT(error_of("certificates: {checkEvery: 1ms}"), HasSubstr("certificates.checkEvery"));
  EXPECT_THAT(error_of("certificate: {}"), HasSubstr("f.yaml:1:1"));
}

}  // namespace
}  // namespace tessera::webhook
