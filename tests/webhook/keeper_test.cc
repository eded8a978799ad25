// The keepers of two replicas against the fake API server. The time is the tests' own.
#include "webhook/keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <memory>
#include <vector>

#include "base/log.h"
#include "fake_api_server.h"
#include "kube/base64.h"

namespace tessera::webhook {
namespace {

using namespace std::chrono_literals;
using boost::json::array;
using boost::json::object;
using boost::json::value;
using ::testing::HasSubstr;

constexpr const char* kSecret = "/api/v1/namespaces/tessera-system/secrets/tessera-webhook-tls";
constexpr const char* kConfiguration =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/tessera-scheduler-name";
constexpr std::chrono::hours kLifetime{24 * 90};

class KeeperTest : public ::testing::Test {
 protected:
  KeeperTest() : server_(loop_) {
    log::Options quiet;
    quiet.level = log::Level::kOff;
    EXPECT_TRUE(log::configure(quiet));
    put_configuration("");
  }

  void put_configuration(const std::string& bundle) {
    object client{{"service", object{{"name", "tessera-webhook"}}}};
    if (!bundle.empty()) {
      client["caBundle"] = kube::encode_base64(bundle);
    }
    server_.put(kConfiguration, {{"webhooks", array{object{{"name", "scheduler-name.tessera.io"},
                                                           {"failurePolicy", "Ignore"},
                                                           {"clientConfig", client}}}}});
  }

  // One replica. The clock is shared.
  struct Replica {
    Replica(KeeperTest& test, const std::string& name)
        : client(kube::Client::create(test.loop_, test.server_.access(),
                                      {.user_agent = "tessera-webhook/1",
                                       .backoff = {.first = 1ms, .cap = 2ms},
                                       .clock = &test.clock_})
                     .value()),
          keeper(client,
                 {.namespace_name = "tessera-system",
                  .secret = "tessera-webhook-tls",
                  .configuration = "tessera-scheduler-name",
                  .host = "tessera-webhook.tessera-system.svc",
                  .manager = name,
                  .lifetime = kLifetime,
                  .settle = 1min,
                  .check_every = 60ms},
                 [this](const http::TlsIdentity& identity) -> Status {
                   served.push_back(identity.certificate_pem);
                   return {};
                 }) {
      keeper.start();
    }
    kube::Client client;
    std::vector<std::string> served;  // certificates, in the order of their use
    Keeper keeper;
  };

  std::unique_ptr<Replica> replica(const std::string& name = "a") {
    return std::make_unique<Replica>(*this, name);
  }

  void until(const std::function<bool()>& done, const char* what) {
    EXPECT_TRUE(loop_.run_until(done, 10s)) << "not in time: " << what;
  }
  void until_ready(const Replica& one) {
    until([&] { return one.keeper.not_ready().empty(); }, "ready");
  }
  // Runs a few rounds of every keeper.
  void run_rounds() {
    loop_.run_until([] { return false; }, 300ms);
  }

  std::string entry(const std::string& name) {
    const value secret = server_.get(kSecret);
    const value* data = secret.as_object().if_contains("data");
    const value* found = data == nullptr ? nullptr : data->as_object().if_contains(name);
    return found == nullptr ? "" : kube::decode_base64(std::string_view(found->as_string())).value();
  }
  std::string ca_bundle() {
    const value configuration = server_.get(kConfiguration);
    const object& client = configuration.at("webhooks").at(0).at("clientConfig").as_object();
    return client.contains("caBundle")
               ? kube::decode_base64(std::string_view(client.at("caBundle").as_string())).value()
               : "";
  }

  ManualClock clock_;
  http::EventLoop loop_;
  kube::FakeApiServer server_;
};

TEST_F(KeeperTest, FillsTheEmptySecretOfTheChartAndTheBundle) {
  server_.put(kSecret, {{"type", "Opaque"}});
  const auto one = replica();
  EXPECT_THAT(one->keeper.not_ready(), HasSubstr("the Secret tessera-webhook-tls has no certificate yet"));
  until_ready(*one);
  EXPECT_EQ(ca_bundle(), entry("ca.crt"));
  EXPECT_THAT(one->served, ::testing::ElementsAre(entry("tls.crt")));
  EXPECT_EQ(entry("ca.key"), "") << "the key of the authority must not be kept";
  EXPECT_EQ(server_.get(kConfiguration).at("webhooks").at(0).at("failurePolicy"), "Ignore");
  EXPECT_EQ(server_.get(kConfiguration).at("webhooks").at(0).at("clientConfig").at("service").at("name"),
            "tessera-webhook");
  EXPECT_EQ(one->keeper.counts().created, 1U);
  EXPECT_EQ(one->keeper.counts().restored, 0U);
}

TEST_F(KeeperTest, WritesNothingInSteadyState) {
  const auto one = replica();
  until_ready(*one);
  run_rounds();
  server_.seen.clear();
  run_rounds();
  EXPECT_GT(server_.seen.size(), 2U);
  for (const auto& request : server_.seen) {
    EXPECT_EQ(request.method, "GET") << request.target;
  }
}

TEST_F(KeeperTest, ReplicasThatStartTogetherShareOneCertificate) {
  const auto one = replica("a");
  const auto two = replica("b");
  until_ready(*one);
  until_ready(*two);
  run_rounds();
  EXPECT_EQ(one->served.back(), entry("tls.crt"));
  EXPECT_EQ(two->served.back(), entry("tls.crt"));
  EXPECT_EQ(one->keeper.counts().created + two->keeper.counts().created, 1U);
}

TEST_F(KeeperTest, RenewsAndServesTheOldCertificateUntilTheNewOneIsTrusted) {
  const auto one = replica("a");
  const auto two = replica("b");
  until_ready(*one);
  until_ready(*two);
  const std::string old_certificate = entry("tls.crt");
  const std::string old_authority = entry("ca.crt");
  clock_.advance(kLifetime * 2 / 3);
  until([&] { return entry("tls.crt") != old_certificate; }, "renewed");
  run_rounds();
  EXPECT_EQ(entry("previous.crt"), old_certificate);
  EXPECT_THAT(ca_bundle(), HasSubstr(old_authority));
  EXPECT_THAT(ca_bundle(), HasSubstr(entry("ca.crt")));
  EXPECT_EQ(one->keeper.counts().created + two->keeper.counts().created, 2U) << "both renewed";
  EXPECT_EQ(one->served.back(), old_certificate);
  EXPECT_EQ(two->served.back(), old_certificate);
  clock_.advance(1min);
  until([&] { return one->served.back() == entry("tls.crt") && two->served.back() == entry("tls.crt"); },
        "both serve the new certificate");
  EXPECT_THAT(ca_bundle(), HasSubstr(old_authority)) << "the old authority left too early";

  // The next renewal drops the first authority.
  clock_.advance(kLifetime * 2 / 3);
  until([&] { return entry("previous.crt") == one->served.back(); }, "renewed again");
  run_rounds();
  EXPECT_THAT(ca_bundle(), ::testing::Not(HasSubstr(old_authority)));
}

TEST_F(KeeperTest, RestoresADeletedSecretFromMemory) {
  const auto one = replica("a");
  const auto two = replica("b");
  until_ready(*one);
  until_ready(*two);
  const std::string certificate = entry("tls.crt");
  server_.remove(kSecret);
  until([&] { return !server_.get(kSecret).is_null(); }, "the Secret exists again");
  EXPECT_EQ(entry("tls.crt"), certificate);
  run_rounds();
  EXPECT_EQ(one->served.size(), 1U) << "the certificate in use must not change";
  EXPECT_GE(one->keeper.counts().restored + two->keeper.counts().restored, 1U);
  EXPECT_EQ(one->keeper.counts().created + two->keeper.counts().created, 1U);
}

TEST_F(KeeperTest, RestoresADamagedSecretFromMemory) {
  const auto one = replica();
  until_ready(*one);
  const std::string key = entry("tls.key");
  server_.change(kSecret, {{"data", object{{"tls.key", "eA=="}}}});
  until([&] { return entry("tls.key") == key; }, "restored");
  EXPECT_EQ(one->keeper.counts().restored, 1U);
  EXPECT_EQ(one->served.size(), 1U);
}

TEST_F(KeeperTest, ReplacesADamagedSecretThatItDoesNotKnow) {
  server_.put(kSecret, {{"data", object{{"tls.crt", "eA=="}, {"tls.key", "eA=="}}}});
  const auto one = replica();
  until_ready(*one);
  EXPECT_EQ(one->keeper.counts().restored, 1U);
  EXPECT_EQ(one->served.back(), entry("tls.crt"));
}

TEST_F(KeeperTest, RenewsACertificateThatExpiredWhileNoReplicaRan) {
  {
    const auto one = replica();
    until_ready(*one);
  }
  const std::string expired = entry("tls.crt");
  clock_.advance(kLifetime * 2);
  const auto one = replica();
  until_ready(*one);
  EXPECT_NE(entry("tls.crt"), expired);
  EXPECT_EQ(entry("previous.crt"), "");
  EXPECT_THAT(one->served, ::testing::ElementsAre(entry("tls.crt")));
}

TEST_F(KeeperTest, WritesTheBundleAgainAfterAReset) {
  const auto one = replica();
  until_ready(*one);
  put_configuration("");
  until([&] { return one->keeper.counts().bundle_writes == 2; }, "the bundle is back");
  EXPECT_EQ(ca_bundle(), entry("ca.crt"));
  EXPECT_EQ(one->keeper.not_ready(), "");
}

TEST_F(KeeperTest, KeepsAnAuthorityThatAnotherReplicaHasAdded) {
  const auto one = replica();
  until_ready(*one);
  const std::string both = make_identity("x", kLifetime, clock_.wall()).value().authority + entry("ca.crt");
  put_configuration(both);
  run_rounds();
  EXPECT_EQ(ca_bundle(), both);
}

TEST_F(KeeperTest, ServesItsCertificateWhileTheApiServerFails) {
  const auto one = replica();
  until_ready(*one);
  server_.intercept = [](const auto&) -> std::optional<http::Response> {
    return http::Response{.status = 403, .body = kube::status_json(403, "Forbidden", "not allowed")};
  };
  until([&] { return one->keeper.counts().failures > 0; }, "a failed round");
  EXPECT_EQ(one->keeper.not_ready(), "") << "the API server still trusts the certificate in use";
  EXPECT_EQ(one->served.size(), 1U);
  server_.intercept = nullptr;
  server_.remove(kSecret);
  until([&] { return !server_.get(kSecret).is_null(); }, "works again");
}

TEST_F(KeeperTest, SaysWhichObjectItMayNotWrite) {
  server_.intercept = [](const auto& seen) -> std::optional<http::Response> {
    if (seen.method == "PATCH" && seen.target.find("mutatingwebhook") != std::string::npos) {
      return http::Response{.status = 403, .body = kube::status_json(403, "Forbidden", "not allowed")};
    }
    return std::nullopt;
  };
  const auto one = replica();
  until([&] { return one->keeper.counts().failures > 0; }, "a failed round");
  EXPECT_THAT(one->keeper.not_ready(),
              HasSubstr("MutatingWebhookConfiguration tessera-scheduler-name does not trust"));
  EXPECT_THAT(one->keeper.not_ready(), HasSubstr("not allowed"));
}

TEST_F(KeeperTest, UsesTheCertificateOfAnotherReplicaAfterALostRace) {
  server_.put(kSecret, {{"type", "Opaque"}});
  bool raced = false;
  server_.intercept = [&](const auto& seen) -> std::optional<http::Response> {
    if (seen.method == "PATCH" && seen.target.find("secrets") != std::string::npos && !raced) {
      raced = true;
      const Identities other{
          .current = make_identity("tessera-webhook.tessera-system.svc", kLifetime, clock_.wall()).value(),
          .previous = std::nullopt};
      server_.change(
          kSecret,
          boost::json::parse(new_secret("tessera-system", "tessera-webhook-tls", other)).as_object());
    }
    return std::nullopt;
  };
  const auto one = replica();
  until_ready(*one);
  EXPECT_TRUE(raced);
  EXPECT_EQ(one->keeper.counts().created, 0U);
  EXPECT_EQ(one->served.back(), entry("tls.crt"));
}

}  // namespace
}  // namespace tessera::webhook
