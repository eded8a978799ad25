#include "kube/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/temporary_directory.h"
#include "base/file.h"
#include "base/strings.h"
#include "kube/child_process.h"
#include "kube/rfc3339.h"

namespace tessera::kube {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

ClusterAccess with_token_file(const std::string& file) {
  ClusterAccess access;
  access.user.token_file = file;
  return access;
}

ClusterAccess with_exec(const std::string& command, std::vector<std::string> args = {}) {
  ClusterAccess access;
  access.user.name = "red";
  access.user.exec = ExecPlugin{.api_version = "client.authentication.k8s.io/v1",
                                .command = command,
                                .args = std::move(args),
                                .env = {},
                                .install_hint = "see the wiki",
                                .provide_cluster_info = false};
  return access;
}

TEST(Credentials, RereadsATokenFileAfterAMinute) {
  const TemporaryDirectory dir;
  ManualClock clock;
  ASSERT_TRUE(write_file(dir / "token", "one\n"));
  Credentials credentials(with_token_file(dir / "token"), clock);
  EXPECT_EQ((*credentials.current())->authorization, "Bearer one");
  ASSERT_TRUE(write_file(dir / "token", "two"));
  clock.advance(59s);
  EXPECT_EQ((*credentials.current())->authorization, "Bearer one");
  clock.advance(2s);
  EXPECT_EQ((*credentials.current())->authorization, "Bearer two");
}

TEST(Credentials, RereadsTheTokenFileAtOnceWhenTheServerRefusedTheToken) {
  const TemporaryDirectory dir;
  ManualClock clock;
  ASSERT_TRUE(write_file(dir / "token", "one"));
  Credentials credentials(with_token_file(dir / "token"), clock);
  const Credential first = **credentials.current();
  EXPECT_FALSE(credentials.refused(first)) << "the file still has the same token";
  ASSERT_TRUE(write_file(dir / "token", "two"));
  EXPECT_TRUE(credentials.refused(first));
  EXPECT_EQ((*credentials.current())->authorization, "Bearer two");
  EXPECT_TRUE(credentials.refused(first)) << "another request has already read the new token";
}

TEST(Credentials, KeepTheLastTokenWhileTheFileIsMissing) {
  const TemporaryDirectory dir;
  ManualClock clock;
  ASSERT_TRUE(write_file(dir / "token", "one"));
  Credentials credentials(with_token_file(dir / "token"), clock);
  ASSERT_TRUE(credentials.current());
  std::filesystem::remove(dir / "token");
  clock.advance(2min);
  EXPECT_EQ((*credentials.current())->authorization, "Bearer one");
}

TEST(Credentials, RejectATokenWithALineBreak) {
  const TemporaryDirectory dir;
  ManualClock clock;
  ASSERT_TRUE(write_file(dir / "token", "S3CRET\r\nHost: evil"));
  Credentials credentials(with_token_file(dir / "token"), clock);
  const auto credential = credentials.current();
  ASSERT_FALSE(credential);
  EXPECT_THAT(credential.error().text(), HasSubstr(dir / "token"));
  EXPECT_THAT(credential.error().text(), Not(HasSubstr("S3CRET")));
}

TEST(Credentials, IncrementTheGenerationWhenACertificateChanges) {
  const TemporaryDirectory dir;
  ManualClock clock;
  ASSERT_TRUE(write_file(dir / "crt", "certificate 1"));
  ASSERT_TRUE(write_file(dir / "key", "key 1"));
  ClusterAccess access;
  access.user.client_certificate.file = dir / "crt";
  access.user.client_key.file = dir / "key";
  Credentials credentials(access, clock);
  const Credential first = **credentials.current();
  clock.advance(2min);
  EXPECT_EQ((*credentials.current())->certificate_generation, first.certificate_generation);
  ASSERT_TRUE(write_file(dir / "crt", "certificate 2"));
  clock.advance(2min);
  EXPECT_GT((*credentials.current())->certificate_generation, first.certificate_generation);
}

TEST(Credentials, SendUserAndPasswordAsBasicAuthentication) {
  ManualClock clock;
  ClusterAccess access;
  access.user.username = "Aladdin";
  access.user.password = "open sesame";
  EXPECT_EQ((*Credentials(access, clock).current())->authorization, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
}

TEST(ExecPlugin, RunsAgainOnlyWhenItsCredentialExpiresOrWasRefused) {
  ManualClock clock;
  int runs = 0;
  Credentials credentials(with_exec("plugin"), clock, [&]() -> Result<ExecCredential> {
    ++runs;
    return ExecCredential{.token = "t" + std::to_string(runs),
                          .client_certificate = "",
                          .client_key = "",
                          .expires = clock.wall() + 10min};
  });
  EXPECT_TRUE(credentials.blocks());
  EXPECT_EQ((*credentials.current())->authorization, "Bearer t1");
  EXPECT_FALSE(credentials.blocks());
  clock.advance(9min);
  EXPECT_EQ((*credentials.current())->authorization, "Bearer t1");
  clock.advance(55s);
  EXPECT_TRUE(credentials.blocks()) << "a token that expires in flight would be refused";
  const Credential second = **credentials.current();
  EXPECT_EQ(second.authorization, "Bearer t2");
  EXPECT_TRUE(credentials.refused(second));
  EXPECT_EQ((*credentials.current())->authorization, "Bearer t3");
  EXPECT_EQ(runs, 3);
}

TEST(ExecPlugin, RunsWithItsArgumentsEnvironmentAndInfo) {
  ManualClock clock;
  ClusterAccess access = with_exec("sh", {"-c",
                                          R"(test "$STAGE" = prod || exit 3
                cat >&2
                case "$KUBERNETES_EXEC_INFO" in *'"interactive":false'*'"server":"https://x"'*'"config":{"a":1}'*) ;;
                *) echo "$KUBERNETES_EXEC_INFO" >&2; exit 4;; esac
                echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",
                       "status":{"token":"abc","expirationTimestamp":"2040-01-01T00:00:00Z"}}')"});
  access.user.exec->env = {{"STAGE", "prod"}};
  access.user.exec->provide_cluster_info = true;
  access.cluster.server = "https://x";
  access.cluster.exec_config_json = R"({"a":1})";
  Credentials credentials(access, clock);
  const auto credential = credentials.current();
  ASSERT_TRUE(credential) << credential.error().text();
  EXPECT_EQ((*credential)->authorization, "Bearer abc");
}

TEST(ExecPlugin, ErrorQuotesItsStderrWithoutSecrets) {
  ManualClock clock;
  ClusterAccess access = with_exec("sh", {"-c", "echo \"login failed for $PASSWORD\" >&2; exit 5"});
  access.user.exec->env = {{"PASSWORD", "S3CRET-S3CRET"}};
  const auto credential = Credentials(access, clock).current();
  ASSERT_FALSE(credential);
  const std::string text = credential.error().text();
  EXPECT_THAT(text,
              HasSubstr("user \"red\": exec plugin sh exited with code 5: \"login failed for <PASSWORD>\""));
  EXPECT_THAT(text, HasSubstr("see the wiki"));
  EXPECT_THAT(text, Not(HasSubstr("S3CRET")));
}

TEST(ExecPlugin, ErrorDoesNotQuoteTheValuesOfFlags) {
  ManualClock clock;
  const auto credential = Credentials(with_exec("sh", {"-c", R"(echo "bad login: $*" >&2; exit 1)", "login",
                                                       "get-token", "--client-secret=S3CRET-1", "--verbose",
                                                       "--password", "S3CRET-12", "-v=1"}),
                                      clock)
                              .current();
  ASSERT_FALSE(credential);
  EXPECT_THAT(credential.error().text(),
              HasSubstr("bad login: get-token --client-secret=<--client-secret> --verbose --password "
                        "<--password> -v=1"));
  EXPECT_THAT(credential.error().text(), Not(HasSubstr("S3CRET")));
}

TEST(ExecPlugin, ErrorSaysHowToInstallAMissingPlugin) {
  ManualClock clock;
  const auto credential = Credentials(with_exec("tessera-no-such-plugin"), clock).current();
  ASSERT_FALSE(credential);
  EXPECT_EQ(
      credential.error().text(),
      "user \"red\": exec plugin tessera-no-such-plugin is not installed or not in PATH; \"see the wiki\"");
}

TEST(ExecPlugin, RejectsAnExpiredCredential) {
  ManualClock clock;
  Credentials credentials(with_exec("plugin"), clock, [&]() -> Result<ExecCredential> {
    return ExecCredential{
        .token = "t", .client_certificate = "", .client_key = "", .expires = clock.wall() - 1s};
  });
  const auto credential = credentials.current();
  ASSERT_FALSE(credential);
  EXPECT_THAT(credential.error().text(), HasSubstr("already expired"));
}

TEST(ExecPlugin, RejectsInvalidOutputWithoutQuotingIt) {
  const std::string v1 = "client.authentication.k8s.io/v1";
  for (
      const char* bad :
      {"S3CRET",
       R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"S3CRET"}})",
       R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"})",
       R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{}})",
       R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"clientKeyData":"S3CRET"}})",
       R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"S3CRET","expirationTimestamp":"soon"}})"}) {
    const auto credential = parse_exec_credential(bad, v1);
    ASSERT_FALSE(credential) << bad;
    EXPECT_THAT(credential.error().text(), Not(HasSubstr("S3CRET")));
  }
}

TEST(RunProgram, KillsAProgramThatDoesNotEnd) {
  const auto output =
      run_program({.command = "sh", .args = {"-c", "sleep 1000"}, .env = {}, .timeout = 50ms});
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code(), ErrorCode::kTimeout);
}

TEST(RunProgram, DoesNotWaitForAGrandchildThatKeepsThePipeOpen) {
  const auto output =
      run_program({.command = "sh", .args = {"-c", "sleep 3 & echo done"}, .env = {}, .timeout = 60s});
  ASSERT_TRUE(output) << output.error().text();
  EXPECT_EQ(output->out, "done\n");
}

// A helper process that outlives the program would otherwise keep our listening socket and its
// port.
TEST(RunProgram, TheProgramInheritsNoFileDescriptors) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GT(socket, 2);
  const auto output =
      run_program({.command = "sh", .args = {"-c", "ls -l /proc/$$/fd"}, .env = {}, .timeout = 60s});
  ::close(socket);
  ASSERT_TRUE(output) << output.error().text();
  EXPECT_THAT(output->out, Not(HasSubstr("socket:")));
}

TEST(RunProgram, RejectsEndlessOutput) {
  const auto output = run_program({.command = "sh", .args = {"-c", "yes"}, .env = {}, .timeout = 60s});
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code(), ErrorCode::kInvalid);
}

TEST(RunProgram, KeepsAllOutputOfAProgramThatEndsAtOnce) {
  const auto output = run_program(
      {.command = "sh", .args = {"-c", "head -c 60000 /dev/zero | tr '\\0' x"}, .env = {}, .timeout = 60s});
  ASSERT_TRUE(output);
  EXPECT_EQ(output->out.size(), 60000U);
}

TEST(Rfc3339, ParsesTimesOfServersAndPlugins) {
  const Clock::Wall whole = *parse_rfc3339("2026-11-15T23:02:44Z");
  EXPECT_EQ(rfc3339_seconds(whole), "2026-11-15T23:02:44Z");
  EXPECT_EQ(rfc3339_micros(*parse_rfc3339("2026-11-15T23:02:44.1234567Z")), "2026-11-15T23:02:44.123456Z");
  EXPECT_EQ(*parse_rfc3339("2026-11-16T00:02:44+01:00"), whole);
  EXPECT_EQ(*parse_rfc3339("2026-11-15T17:32:44-05:30"), whole);
  for (const char* bad : {"", "2026", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-11-15T24:00:00Z",
                          "2026-11-15T23:02:44", "2026-11-15T23:02:44.Z", "2026-11-15 23:02:44Z",
                          "2026-11-15T23:02:44Zx", "9999-11-15T23:02:44Z", "2026-11-15T23:02:44+99:00"}) {
    EXPECT_FALSE(parse_rfc3339(bad)) << bad;
  }
}

}  // namespace
}  // namespace tessera::kube
