#include "kube/kubeconfig.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "../base/temporary_directory.h"
#include "base/file.h"
#include "kube/access.h"
#include "kube/base64.h"

namespace tessera::kube {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kTwoContexts = R"(
apiVersion: v1
kind: Config
current-context: red
clusters:
- name: red-cluster
  cluster:
    server: https://red.example:6443
    certificate-authority: pki/ca.crt
    tls-server-name: kubernetes
- name: blue-cluster
  cluster: {server: "https://[fd00::1]:6443", insecure-skip-tls-verify: true, proxy-url: "http://proxy:3128"}
users:
- name: red-user
  user: {token: red-token}
- name: blue-user
  user: {client-certificate-data: Y2VydA==, client-key-data: a2V5, as: admin, as-groups: [ops, dev]}
contexts:
- name: red
  context: {cluster: red-cluster, user: red-user}
- name: blue
  context: {cluster: blue-cluster, user: blue-user, namespace: ml}
)";

std::string error_text(const Result<Kubeconfig>& result) {
  return result ? "no error" : result.error().text();
}

TEST(Kubeconfig, UsesTheCurrentContextUnlessAnotherIsNamed) {
  const auto config = parse_kubeconfig(kTwoContexts, "/etc/k/config");
  ASSERT_TRUE(config) << error_text(config);
  const auto red = config->access();
  ASSERT_TRUE(red);
  EXPECT_EQ(red->cluster.server, "https://red.example:6443");
  EXPECT_EQ(red->cluster.tls_server_name, "kubernetes");
  EXPECT_EQ(red->user.token, "red-token");
  EXPECT_EQ(red->namespace_name, "default");
  const auto blue = config->access("blue");
  ASSERT_TRUE(blue);
  EXPECT_TRUE(blue->cluster.insecure_skip_tls_verify);
  EXPECT_EQ(blue->cluster.proxy_url, "http://proxy:3128");
  EXPECT_EQ(blue->user.client_certificate.data, "cert");
  EXPECT_EQ(blue->user.client_key.data, "key");
  EXPECT_EQ(blue->user.impersonate.user, "admin");
  EXPECT_THAT(blue->user.impersonate.groups, ::testing::ElementsAre("ops", "dev"));
  EXPECT_EQ(blue->namespace_name, "ml");
}

TEST(Kubeconfig, ResolvesRelativePathsFromTheDirectoryOfTheFile) {
  const auto config = parse_kubeconfig(kTwoContexts, "/etc/k/config");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->clusters[0].certificate_authority.file, "/etc/k/pki/ca.crt");
}

TEST(Kubeconfig, ErrorListsTheExistingContexts) {
  const auto config = parse_kubeconfig(kTwoContexts, "f");
  const auto access = config->access("green");
  ASSERT_FALSE(access);
  EXPECT_EQ(access.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(access.error().text(),
            R"(f: context "green" does not exist (existing contexts: "red" and "blue"))");
}

TEST(Kubeconfig, AnEmptyFileIsAConfigurationWithoutContexts) {
  const auto config = parse_kubeconfig("", "f");
  ASSERT_TRUE(config) << error_text(config);
  EXPECT_THAT(config->access().error().text(), HasSubstr("current-context is not set"));
}

// A kubeconfig whose only context uses this user or cluster.
std::string with_user(const char* user) {
  return fmt::format(
      "current-context: x\ncontexts: [{{name: x, context: {{cluster: c, user: a}}}}]\n"
      "clusters: [{{name: c, cluster: {{server: 'https://x'}}}}]\nusers: [{{name: a, user: {{{}}}}}]",
      user);
}
std::string with_cluster(const char* cluster) {
  return fmt::format(
      "current-context: x\ncontexts: [{{name: x, context: {{cluster: c}}}}]\n"
      "clusters: [{{name: c, cluster: {{{}}}}}]",
      cluster);
}

struct BadCase {
  std::string yaml;
  const char* message;
};

class BadKubeconfig : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadKubeconfig, ErrorNamesFileAndFieldWithoutSecrets) {
  auto config = parse_kubeconfig(GetParam().yaml, "f.yaml");
  std::string text = config ? "no error" : config.error().text();
  if (config) {
    const auto access = config->access();
    text = access ? "no error" : access.error().text();
  }
  EXPECT_THAT(text, HasSubstr(GetParam().message));
  EXPECT_THAT(text, HasSubstr("f.yaml"));
  EXPECT_THAT(text, Not(HasSubstr("S3CRET")));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadKubeconfig,
    ::testing::Values(
        BadCase{"kind: Pod", "kind is \"Pod\", so it is not a kubeconfig"},
        BadCase{"users: {a: [S3CRET", "invalid YAML at line 1"}, BadCase{"[1, 2]", "is not a mapping"},
        BadCase{"clusters: 3", "clusters is not a list"},
        BadCase{with_user("client-key-data: '!S3CRET!', client-certificate-data: YQ=="),
                "users \"a\".client-key-data is not base64"},
        BadCase{with_user("client-key: k"), "client-certificate is missing"},
        BadCase{with_user("token: S3CRET, username: u, password: S3CRET"),
                "more than one of token, username and exec"},
        BadCase{with_user("auth-provider: {name: gcp}"), "use an exec plugin"},
        BadCase{with_user("token: {S3CRET: 1}"), "users \"a\".token is not text"},
        BadCase{"users: [{name: a}, {name: a}]", "users \"a\" is defined twice; rename one"},
        BadCase{with_user("as-groups: [g]"), "as is missing"},
        BadCase{with_user("exec: {apiVersion: client.authentication.k8s.io/v1alpha1}"),
                "use client.authentication.k8s.io/v1 or v1beta1"},
        BadCase{with_user("exec: {apiVersion: client.authentication.k8s.io/v1, command: c}"),
                "interactiveMode is \"\"; write Never or IfAvailable"},
        BadCase{with_user("exec: {apiVersion: client.authentication.k8s.io/v1, command: c, interactiveMode: "
                          "Always}"),
                "without a terminal"},
        BadCase{"current-context: a\ncontexts: [{name: a, context: {cluster: c}}]",
                "its cluster \"c\" does not exist (existing clusters: none)"},
        BadCase{"current-context: a\ncontexts: [{name: a, context: [S3CRET]}]",
                "contexts \"a\" is not a mapping"},
        BadCase{with_cluster(""), "cluster \"c\" has no server"},
        BadCase{"current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
                "clusters: [{name: c, cluster: {server: 'https://x'}}]",
                "its user \"u\" does not exist"},
        BadCase{
            with_cluster("server: 'https://x', insecure-skip-tls-verify: true, certificate-authority: ca"),
            "has both certificate-authority and insecure-skip-tls-verify"},
        BadCase{with_cluster("insecure-skip-tls-verify: maybe"), "write true or false"}));

// Many kubeconfigs contain old entries that are no longer used.
TEST(Kubeconfig, AnInvalidEntryIsAnErrorOnlyWhenItIsUsed) {
  const auto config = parse_kubeconfig(R"(
current-context: good
clusters:
- {name: good, cluster: {server: "https://good"}}
- {name: broken, cluster: {server: "https://x", insecure-skip-tls-verify: maybe}}
users:
- {name: good, user: {token: t}}
- {name: gcp, user: {auth-provider: {name: gcp}}}
- {name: old, user: {exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: aws}}}
- {name: asks, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: c, interactiveMode: Always}}}
- {name: half, user: {client-certificate-data: YQ==}}
- {name: list, user: [1]}
contexts:
- {name: good, context: {cluster: good, user: good}}
- {name: on-gcp, context: {cluster: good, user: gcp}}
- {name: on-broken, context: {cluster: broken, user: good}}
- {name: list, context: [1]}
)",
                                       "f");
  ASSERT_TRUE(config) << error_text(config);
  const auto good = config->access();
  ASSERT_TRUE(good) << good.error().text();
  EXPECT_EQ(good->user.token, "t");
  EXPECT_THAT(config->access("on-gcp").error().text(), HasSubstr("f: users \"gcp\".auth-provider"));
  EXPECT_THAT(config->access("on-broken").error().text(),
              HasSubstr("f: clusters \"broken\".insecure-skip-tls-verify"));
  EXPECT_THAT(config->access("list").error().text(), HasSubstr("f: contexts \"list\" is not a mapping"));
}

TEST(Kubeconfig, TheFirstFileThatDefinesAnEntryTakesPrecedence) {
  const TemporaryDirectory dir;
  ASSERT_TRUE(write_file(dir / "a", "current-context: ''\nusers: [{name: u, user: {token: first}}]"));
  ASSERT_TRUE(write_file(dir / "b", R"(
current-context: two
users: [{name: u, user: {token: second, as: root}}]
clusters: [{name: c, cluster: {server: 'https://b', certificate-authority: ca.pem}}]
contexts: [{name: two, context: {cluster: c, user: u}}])"));
  ASSERT_TRUE(write_file(dir / "c", "current-context: three"));
  const auto config = load_kubeconfig({dir / "a", dir / "missing", dir / "b", dir / "c"});
  ASSERT_TRUE(config) << error_text(config);
  const auto access = config->access();
  ASSERT_TRUE(access) << access.error().text();
  EXPECT_EQ(access->context, "two");
  EXPECT_EQ(access->user.token, "first");
  EXPECT_EQ(access->user.impersonate.user, "");
  EXPECT_EQ(access->cluster.certificate_authority.file, dir / "ca.pem");
}

TEST(Kubeconfig, ReturnsNotFoundWhenNoFileExists) {
  const auto config = load_kubeconfig({"/nonexistent/a", "/nonexistent/b"});
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(
      config.error().text(),
      "no kubeconfig: /nonexistent/a and /nonexistent/b do not exist; set KUBECONFIG or use --kubeconfig");
}

TEST(Kubeconfig, ReturnsTheExecExtensionOfAClusterAsJson) {
  const auto config = parse_kubeconfig(R"(
clusters:
- name: c
  cluster:
    server: https://x
    extensions:
    - name: client.authentication.k8s.io/exec
      extension: {audience: me, n: 3, on: true, quoted: "4", list: [a, null]}
)",
                                       "f");
  ASSERT_TRUE(config) << error_text(config);
  EXPECT_EQ(config->clusters[0].exec_config_json,
            R"({"audience":"me","n":3,"on":true,"quoted":"4","list":["a",null]})");
}

AccessOptions options_with(std::initializer_list<std::pair<const std::string, std::string>> variables,
                           const std::string& service_account) {
  AccessOptions options;
  options.environment = [values = std::map<std::string, std::string>(variables)](
                            const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
  options.service_account = service_account;
  return options;
}

class AccessTest : public ::testing::Test {
 protected:
  AccessTest() {
    std::filesystem::create_directory(dir_ / "sa");
    std::filesystem::create_directories(dir_ / "home/.kube");
    EXPECT_TRUE(write_file(dir_ / "sa/token", "pod-token\n"));
    EXPECT_TRUE(write_file(dir_ / "sa/namespace", "kube-system\n"));
  }
  TemporaryDirectory dir_;
};

TEST_F(AccessTest, UsesTheServiceAccountInsideAPod) {
  const auto access = find_access(options_with(
      {{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "443"}, {"HOME", dir_ / "home"}},
      dir_ / "sa"));
  ASSERT_TRUE(access) << access.error().text();
  EXPECT_EQ(access->cluster.server, "https://[fd00::1]:443");
  EXPECT_EQ(access->cluster.certificate_authority.file, dir_ / "sa/ca.crt");
  EXPECT_EQ(access->user.token_file, dir_ / "sa/token");
  EXPECT_EQ(access->namespace_name, "kube-system");
}

TEST_F(AccessTest, PrefersAKubeconfigOverTheServiceAccount) {
  ASSERT_TRUE(write_file(dir_ / "home/.kube/config", kTwoContexts));
  const auto access = find_access(options_with(
      {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"KUBERNETES_SERVICE_PORT", "443"}, {"HOME", dir_ / "home"}},
      dir_ / "sa"));
  ASSERT_TRUE(access) << access.error().text();
  EXPECT_EQ(access->context, "red");
}

// Regression test: the names were views into a string that had been destroyed.
TEST_F(AccessTest, ReadsTheFilesOfTheKubeconfigVariable) {
  ASSERT_TRUE(write_file(dir_ / "first", "users: [{name: red-user, user: {token: first-token}}]"));
  ASSERT_TRUE(write_file(dir_ / "second", kTwoContexts));
  const std::string list = fmt::format("{}::{}:{}:", dir_ / "missing", dir_ / "first", dir_ / "second");
  const auto access = find_access(options_with({{"KUBECONFIG", list}, {"HOME", dir_ / "home"}}, dir_ / "sa"));
  ASSERT_TRUE(access) << access.error().text();
  EXPECT_EQ(access->context, "red");
  EXPECT_EQ(access->user.token, "first-token");
  EXPECT_EQ(access->cluster.certificate_authority.file, dir_ / "pki/ca.crt");
}

TEST_F(AccessTest, DoesNotUseTheServiceAccountIfAContextIsNamed) {
  auto options = options_with(
      {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"KUBERNETES_SERVICE_PORT", "443"}, {"HOME", dir_ / "home"}},
      dir_ / "sa");
  options.context = "red";
  EXPECT_FALSE(find_access(options));
}

TEST_F(AccessTest, ErrorExplainsAMissingServiceAccountToken) {
  std::filesystem::remove(dir_ / "sa/token");
  const auto access = in_cluster_access(options_with(
      {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"KUBERNETES_SERVICE_PORT", "443"}}, dir_ / "sa"));
  ASSERT_FALSE(access);
  EXPECT_THAT(access.error().text(), HasSubstr("automountServiceAccountToken"));
}

TEST(Base64, DecodesTheOutputOfBase64) {
  EXPECT_EQ(*decode_base64("aGVsbG8gd29ybGQ="), "hello world");
  EXPECT_EQ(*decode_base64("aGVs\n bG8=\n"), "hello");
  EXPECT_EQ(*decode_base64(""), "");
  for (const char* bad : {"a", "ab=c", "====", "aGVsbG8", "a-b_"}) {
    EXPECT_FALSE(decode_base64(bad)) << bad;
  }
  const std::string bytes("\0\xff\x01 any", 7);
  EXPECT_EQ(*decode_base64(encode_base64(bytes)), bytes);
}

}  // namespace
}  // namespace tessera::kube
