#include "webhook/identities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "kube/base64.h"

namespace tessera::webhook {
namespace {

using namespace std::chrono_literals;
using boost::json::object;
using boost::json::value;
using ::testing::HasSubstr;

constexpr const char* kHost = "tessera-webhook.tessera-system.svc";
constexpr std::chrono::hours kLifetime{24 * 90};

Identity made(Clock::Wall now = ManualClock().wall()) {
  return make_identity(kHost, kLifetime, now).value();
}

// Returns the Secret that the API server has after this write.
value secret_of(const Identities& identities) {
  return boost::json::parse(new_secret("tessera-system", "tessera-webhook-tls", identities));
}

TEST(Identities, AreReadBackFromTheSecret) {
  const Identities both{.current = made(), .previous = made()};
  EXPECT_EQ(read_identities(secret_of(both), kHost).value(), both);
  const Identities one{.current = made(), .previous = std::nullopt};
  EXPECT_EQ(read_identities(secret_of(one), kHost).value(), one);
  EXPECT_FALSE(secret_of(one).at("data").as_object().contains("previous.key"));
}

TEST(Identities, AreNothingInASecretWithoutData) {
  const auto read = read_identities(object{{"metadata", object{}}}, kHost);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_FALSE(read->has_value());
}

TEST(Identities, AreValidFromYesterdaySoThatClocksMayDiffer) {
  const ManualClock clock;
  const Identity identity = made(clock.wall());
  const auto validity = http::certificate_validity(identity.server.certificate).value();
  EXPECT_EQ(validity.from, clock.wall() - 24h);
  EXPECT_EQ(validity.to, clock.wall() + kLifetime);
  const auto authority = http::certificate_validity(identity.authority).value();
  EXPECT_LE(authority.from, validity.from);
  EXPECT_GE(authority.to, validity.to);
}

TEST(Identities, AreDueWhenAThirdOfTheLifetimeIsLeft) {
  const ManualClock clock;
  const Identity identity = made(clock.wall());
  EXPECT_FALSE(is_due(identity, kLifetime, clock.wall() + kLifetime * 2 / 3 - 1s));
  EXPECT_TRUE(is_due(identity, kLifetime, clock.wall() + kLifetime * 2 / 3));
}

TEST(Identities, ReportsTheDamagedEntryOfASecret) {
  const Identities good{.current = made(), .previous = std::nullopt};
  const auto error = [&](const char* entry, const std::string& bytes) {
    value secret = secret_of(good);
    secret.at("data").as_object()[entry] = kube::encode_base64(bytes);
    const auto read = read_identities(secret, kHost);
    EXPECT_FALSE(read);
    return read ? "" : read.error().text();
  };
  EXPECT_THAT(error("tls.crt", "x"), HasSubstr("tls.crt"));
  EXPECT_THAT(error("tls.key", ""), HasSubstr("private key"));
  EXPECT_THAT(error("tls.key", made().server.key), HasSubstr("does not belong to the certificate"));
  EXPECT_THAT(error("ca.crt", made().authority), HasSubstr("is not signed by the authority"));
  EXPECT_THAT(error("ca.crt", "x"), HasSubstr("is not signed by the authority"));
  value incomplete = secret_of(good);
  incomplete.at("data").as_object().erase("ca.crt");
  EXPECT_THAT(read_identities(incomplete, kHost).error().text(), HasSubstr("ca.crt"));
  EXPECT_THAT(read_identities(secret_of(good), "other.svc").error().text(), HasSubstr("not for other.svc"));
  value not_base64 = secret_of(good);
  not_base64.at("data").as_object()["tls.crt"] = "%";
  EXPECT_FALSE(read_identities(not_base64, kHost));
}

TEST(Identities, LeaveOutADamagedPreviousCertificate) {
  const Identities both{.current = made(), .previous = made()};
  value secret = secret_of(both);
  secret.at("data").as_object()["previous.key"] = "eA==";
  const Identities read = read_identities(secret, kHost).value().value();
  EXPECT_EQ(read.current, both.current);
  EXPECT_FALSE(read.previous);
}

TEST(Identities, BundleHasEveryAuthority) {
  const Identities both{.current = made(), .previous = made()};
  const Identities one{.current = both.current, .previous = std::nullopt};
  EXPECT_TRUE(contains_bundle(bundle(both), both));
  EXPECT_TRUE(contains_bundle(bundle(both), one));
  EXPECT_FALSE(contains_bundle(bundle(one), both));
  EXPECT_FALSE(contains_bundle("", one));
}

TEST(Identities, PatchRemovesAnEarlierPreviousCertificate) {
  const value patch = boost::json::parse(secret_patch("7", {.current = made(), .previous = std::nullopt}));
  EXPECT_EQ(patch.at("metadata").at("resourceVersion"), "7");
  EXPECT_TRUE(patch.at("data").at("previous.key").is_null());
}

}  // namespace
}  // namespace tessera::webhook
