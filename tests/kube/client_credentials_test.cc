// Credentials that expire, rotate or never arrive.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>

#include "../base/temporary_directory.h"
#include "base/file.h"
#include "client_fixture.h"
#include "test_certificates.h"

namespace tessera::kube {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class ClientCredentials : public ClientTest {
 protected:
  ClientCredentials() { respond_with({}); }
};

TEST_F(ClientCredentials, AHangingPluginDoesNotDelayARequestBeyondItsDeadline) {
  std::mutex mutex;
  std::condition_variable go_on;
  bool released = false;
  use_plugin([&]() -> Result<ExecCredential> {
    std::unique_lock lock(mutex);
    go_on.wait(lock, [&] { return released; });
    return ExecCredential{.token = "late", .client_certificate = "", .client_key = "", .expires = {}};
  });
  Client client = this->client();
  Request request = get_request("/version");
  request.deadline = 500ms;
  const auto reply = client.fetch(std::move(request));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), ErrorCode::kUnavailable) << "the request was not sent";
  EXPECT_THAT(reply.error().text(), HasSubstr("plugin did not finish in time"));
  {
    const std::lock_guard lock(mutex);
    released = true;
  }
  go_on.notify_all();
  EXPECT_TRUE(client.fetch(get_request("/version"))) << "the plugin has finished";
}

TEST_F(ClientCredentials, APluginWithShortLivedCredentialsRunsOncePerRequest) {
  std::atomic<int> runs = 0;
  use_plugin([&]() -> Result<ExecCredential> {
    return ExecCredential{.token = fmt::format("t{}", ++runs),
                          .client_certificate = "",
                          .client_key = "",
                          .expires = Clock::real().wall() + 5s};
  });
  Client client = this->client();
  EXPECT_TRUE(client.fetch(get_request("/version")));
  EXPECT_TRUE(client.fetch(get_request("/version")));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(server_.seen.back().authorization, "Bearer t2");
}

// Leader election does not retry its requests. It lost its lease when the token had been rotated.
TEST_F(ClientCredentials, ARequestWithoutRetriesStillGetsANewToken) {
  const TemporaryDirectory dir;
  access_.user.token_file = dir / "token";
  ASSERT_TRUE(write_file(dir / "token", "old"));
  Client client = this->client();
  ASSERT_TRUE(client.fetch(get_request("/version")));
  ASSERT_TRUE(write_file(dir / "token", "new"));
  server_.token = "new";
  Request once = get_request("/version");
  once.max_attempts = 1;
  const auto reply = client.fetch(std::move(once));
  EXPECT_TRUE(reply) << reply.error().text();
}

TEST_F(ClientCredentials, KeepsItsCertificateUntilBothNewFilesExist) {
  const http::TestAuthority authority("test authority");
  const http::PemPair server = authority.issue({.addresses = {"127.0.0.1"}});
  http::ServerTls tls{.identity = {.certificate_pem = server.certificate, .key_pem = server.key},
                      .client_ca_pem = authority.certificate()};
  const auto names = http::Server::create(loop_, {.tls = tls}, [](http::Request& request, http::Reply reply) {
    reply.send({.body = std::string(request.client_name())});
  });
  ASSERT_TRUE(names);
  const TemporaryDirectory dir;
  const http::PemPair before = authority.issue({.common_name = "before"});
  const http::PemPair after = authority.issue({.common_name = "after"});
  ASSERT_TRUE(write_file(dir / "crt", before.certificate));
  ASSERT_TRUE(write_file(dir / "key", before.key));
  access_.cluster.server = fmt::format("https://127.0.0.1:{}", names->port());
  access_.cluster.certificate_authority.data = authority.certificate();
  access_.user.client_certificate.file = dir / "crt";
  access_.user.client_key.file = dir / "key";
  ManualClock clock;
  options_.clock = &clock;
  Client client = this->client();
  const auto name = [&] {
    clock.advance(2min);  // makes the client re-read the files
    const auto reply = client.fetch(get_request("/"));
    return reply ? std::string(reply->body.text()) : reply.error().text();
  };
  EXPECT_EQ(name(), "before");
  ASSERT_TRUE(write_file(dir / "crt", after.certificate));
  EXPECT_EQ(name(), "before");
  ASSERT_TRUE(write_file(dir / "key", after.key));
  EXPECT_EQ(name(), "after");
}

}  // namespace
}  // namespace tessera::kube
