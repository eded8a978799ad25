// The whole webhook over TLS, with the fake API server.
#include "webhook/webhook.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "../base/temporary_directory.h"
#include "base/file.h"
#include "base/log.h"
#include "fake_api_server.h"
#include "http/client.h"
#include "kube/base64.h"
#include "test_certificates.h"

namespace tessera::webhook {
namespace {

using namespace std::chrono_literals;
using boost::json::array;
using boost::json::object;
using boost::json::value;
using ::testing::HasSubstr;

constexpr const char* kConfiguration =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/tessera-scheduler-name";
constexpr const char* kReview =
    R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",)"
    R"("kind":{"group":"","version":"v1","kind":"Pod"},"operation":"CREATE","object":{"spec":{)"
    R"("containers":[{"resources":{"limits":{"aliyun.com/gpu":"1"}}}]}}}})";

class WebhookTest : public ::testing::Test {
 protected:
  WebhookTest() : server_(loop_) {
    log::Options quiet;
    quiet.level = log::Level::kOff;
    EXPECT_TRUE(log::configure(quiet));
    server_.put(kConfiguration, {{"webhooks", array{object{{"name", "n"}, {"clientConfig", object{}}}}}});
    config_.address = config_.health_address = "127.0.0.1";
    config_.port = config_.health_port = 0;
    config_.check_every = 100ms;
    config_.settle = 200ms;
  }
  ~WebhookTest() override {
    if (webhook_) {
      bool stopped = false;
      loop_.call([&] { webhook_->stop([&] { stopped = true; }); });
      EXPECT_TRUE(loop_.run_until([&] { return stopped; }, 10s));
    }
  }

  void start() {
    auto made = Webhook::create(loop_, config_, {.name = "pod", .namespace_name = "tessera-system"},
                                server_.access());
    ASSERT_TRUE(made) << made.error().text();
    webhook_ = *std::move(made);
    loop_.call([&] { webhook_->start(); });
  }

  Result<http::ClientResponse> call(const std::string& ca, const std::string& body,
                                    const std::string& target = "/scheduler-name") {
    http::Client client =
        http::Client::create(loop_,
                             {.url = fmt::format("https://127.0.0.1:{}", webhook_->port()),
                              .tls = {.ca_pem = ca, .server_name = "tessera-webhook.tessera-system.svc"}})
            .value();
    return client.fetch({.method = "POST", .target = target, .body = body});
  }
  std::string get(const std::string& path) {
    http::Client client =
        http::Client::create(loop_, {.url = fmt::format("http://127.0.0.1:{}", webhook_->health_port())})
            .value();
    const auto response = client.fetch({.target = path});
    return response ? fmt::format("{} {}", response->status, response->body.text()) : response.error().text();
  }
  void until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      loop_.run_until([] { return false; }, 20ms);
    }
  }
  void until_ready() {
    until([&] { return get("/readyz").starts_with("200"); });
  }
  std::string ca_bundle() {
    const value configuration = server_.get(kConfiguration);
    const value* bundle =
        configuration.at("webhooks").at(0).at("clientConfig").as_object().if_contains("caBundle");
    return bundle == nullptr ? "" : kube::decode_base64(std::string_view(bundle->as_string())).value();
  }

  http::EventLoop loop_;
  kube::FakeApiServer server_;
  Config config_;
  std::unique_ptr<Webhook> webhook_;
};

TEST_F(WebhookTest, AnswersClientsThatTrustTheBundle) {
  start();
  until_ready();
  const auto response = call(ca_bundle(), kReview);
  ASSERT_TRUE(response) << response.error().text();
  EXPECT_EQ(response->status, 200);
  EXPECT_THAT(std::string(response->body.text()), HasSubstr(R"("patchType":"JSONPatch")"));
  EXPECT_FALSE(call(http::TestAuthority("another").certificate(), kReview));
  const std::string metrics = get("/metrics");
  EXPECT_THAT(metrics, HasSubstr("tessera_webhook_reviews_total{result=\"changed\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("tessera_webhook_ca_bundle_current 1"));
  EXPECT_THAT(metrics, HasSubstr("tessera_webhook_certificate_expiry_timestamp_seconds"));
  EXPECT_THAT(metrics, HasSubstr("tessera_webhook_connections_tls_failures_total 1"));
}

TEST_F(WebhookTest, RefusesWhatIsNoReview) {
  start();
  until_ready();
  EXPECT_EQ(call(ca_bundle(), "x")->status, 400);
  EXPECT_EQ(call(ca_bundle(), kReview, "/other")->status, 404);
  EXPECT_EQ(call(ca_bundle(), std::string(5U << 20U, ' '))->status, 413);
  EXPECT_THAT(get("/metrics"), HasSubstr("tessera_webhook_reviews_total{result=\"invalid\"} 1"));
  EXPECT_TRUE(get("/scheduler-name").starts_with("404"));
}

// Every call must succeed with the bundle that API servers have at that moment.
TEST_F(WebhookTest, AnswersEveryCallWhileCertificatesAreRenewed) {
  config_.lifetime = 6s;  // a certificate every 4 s
  start();
  until_ready();
  const std::string first = ca_bundle();
  std::string last = first;
  int renewals = 0;
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (renewals < 2 && std::chrono::steady_clock::now() < deadline) {
    const std::string trusted = ca_bundle();
    renewals += trusted == last ? 0 : 1;
    last = trusted;
    const auto response = call(trusted, kReview);
    ASSERT_TRUE(response) << response.error().text();
    EXPECT_EQ(response->status, 200);
  }
  EXPECT_EQ(renewals, 2);
}

TEST_F(WebhookTest, ServesCertificateFilesWithoutTheApiServer) {
  const TemporaryDirectory directory;
  const http::TestAuthority ca("files");
  const auto write = [&] {
    const http::PemPair pair = ca.issue({.dns_names = {"tessera-webhook.tessera-system.svc"}});
    ASSERT_TRUE(write_file(directory.path() + "/tls.crt", pair.certificate));
    ASSERT_TRUE(write_file(directory.path() + "/tls.key", pair.key));
  };
  write();
  config_.tls_certificate = directory.path() + "/tls.crt";
  config_.tls_key = directory.path() + "/tls.key";
  auto made = Webhook::create(loop_, config_, {}, std::nullopt);
  ASSERT_TRUE(made) << made.error().text();
  webhook_ = *std::move(made);
  EXPECT_TRUE(get("/readyz").starts_with("200"));
  EXPECT_TRUE(call(ca.certificate(), kReview));
  write();
  EXPECT_TRUE(call(ca.certificate(), kReview));
  EXPECT_TRUE(server_.seen.empty());
}

TEST_F(WebhookTest, ReportsAPortThatIsTaken) {
  start();
  Config same = config_;
  same.port = webhook_->port();
  const auto second = Webhook::create(loop_, same, {}, server_.access());
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().text(), HasSubstr("cannot listen"));
}

}  // namespace
}  // namespace tessera::webhook
