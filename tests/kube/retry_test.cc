#include "kube/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "kube/backoff.h"

namespace tessera::kube {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Attempt responded(int code, std::optional<std::chrono::seconds> retry_after = {}) {
  ApiStatus status;
  status.code = code;
  status.retry_after = retry_after;
  return {.status = status, .transport = {}};
}

Attempt broken(ErrorCode code) {
  return {.status = {}, .transport = Error(code, "no response")};
}

constexpr RetryRequest kRead{.repeat = Repeat::kSafe, .repeat_conflict = false};
constexpr RetryRequest kBind{.repeat = Repeat::kIfNotActed, .repeat_conflict = false};

struct Rule {
  const char* name;
  RetryRequest request;
  Attempt attempt;
  bool again;
  ErrorCode code;
};

class RetryRules : public ::testing::TestWithParam<Rule> {};

TEST_P(RetryRules, Hold) {
  const Rule& rule = GetParam();
  EXPECT_EQ(judge(rule.request, rule.attempt).again, rule.again);
  EXPECT_EQ(final_error(rule.request, rule.attempt).code(), rule.code);
}

INSTANTIATE_TEST_SUITE_P(
    All, RetryRules,
    ::testing::Values(
        Rule{"read_500", kRead, responded(500), true, ErrorCode::kUnavailable},
        Rule{"read_504", kRead, responded(504), true, ErrorCode::kTimeout},
        Rule{"read_404", kRead, responded(404), false, ErrorCode::kNotFound},
        Rule{"read_400", kRead, responded(400), false, ErrorCode::kInvalid},
        Rule{"read_403", kRead, responded(403), false, ErrorCode::kDenied},
        Rule{"read_401", kRead, responded(401), true, ErrorCode::kDenied},
        Rule{"read_410", kRead, responded(410), false, ErrorCode::kConflict},
        Rule{"read_501", kRead, responded(501), false, ErrorCode::kUnavailable},
        Rule{"read_lost", kRead, broken(ErrorCode::kTimeout), true, ErrorCode::kTimeout},
        Rule{"bind_409", kBind, responded(409), false, ErrorCode::kConflict},
        Rule{"bind_429", kBind, responded(429, 1s), true, ErrorCode::kUnavailable},
        Rule{"bind_429_without_time", kBind, responded(429), true, ErrorCode::kUnavailable},
        Rule{"bind_500_may_have_acted", kBind, responded(500), false, ErrorCode::kTimeout},
        Rule{"bind_502_may_have_acted", kBind, responded(502), false, ErrorCode::kTimeout},
        Rule{"bind_503_may_have_acted", kBind, responded(503), false, ErrorCode::kTimeout},
        Rule{"bind_503_with_retry_after_did_not", kBind, responded(503, 1s), true, ErrorCode::kUnavailable},
        Rule{"bind_504_may_have_acted", kBind, responded(504), false, ErrorCode::kTimeout},
        Rule{"bind_reply_lost", kBind, broken(ErrorCode::kTimeout), false, ErrorCode::kTimeout},
        Rule{"bind_reply_garbled", kBind, broken(ErrorCode::kInvalid), false, ErrorCode::kTimeout},
        Rule{"bind_wrong_certificate", kBind, broken(ErrorCode::kDenied), false, ErrorCode::kDenied},
        Rule{"bind_never_sent", kBind, broken(ErrorCode::kUnavailable), true, ErrorCode::kUnavailable},
        Rule{"patch_lost_race", RetryRequest{.repeat = Repeat::kSafe, .repeat_conflict = true},
             responded(409), true, ErrorCode::kConflict}),
    [](const auto& rule) { return std::string(rule.param.name); });

TEST(Retry, WaitsForRetryAfter) {
  EXPECT_EQ(judge(kRead, responded(429, 7s)).at_least, 7s);
}

TEST(Retry, RefreshesTheCredentialAfter401) {
  EXPECT_TRUE(judge(kBind, responded(401)).refresh_credential);
}

TEST(Retry, DoesNotRetryAnEvictionThatABudgetForbids) {
  const ApiStatus status = status_of_response(
      429, R"({"kind":"Status","status":"Failure","message":"Cannot evict pod","reason":"TooManyRequests",
              "details":{"causes":[{"reason":"DisruptionBudget","message":"needs 2"}]},"code":429})",
      "");
  EXPECT_FALSE(judge(kBind, {.status = status, .transport = {}}).again);
}

TEST(ApiStatus, ParsesCapturedErrorResponses) {
  const std::string folder = std::string(TESSERA_SHARED_DATA) + "/captures/v1.36.4-nodeCacheCapable-true/";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no captured responses in " << folder;
  }
  const auto read = [&](const char* name) { return *parse_status(*read_file(folder + name)); };
  EXPECT_EQ(read("err.conflict-patch.json").to_error().code(), ErrorCode::kConflict);
  EXPECT_EQ(read("err.forbidden.json").to_error().code(), ErrorCode::kDenied);
  EXPECT_EQ(read("err.notfound.json").to_error().text(),
            "the API server responded 404: pods \"nope\" not found");
  EXPECT_THAT(read("err.unauthorized.json").to_error().text(), HasSubstr("log in again"));
  EXPECT_THAT(read("err.double-bind.json").message, HasSubstr("already assigned to node"));
}

TEST(ApiStatus, KeepsTheBeginningOfAProxysErrorPage) {
  const ApiStatus status = status_of_response(502, "<html>\r\n<b>Bad\x01Gateway</b>", "5");
  EXPECT_EQ(status.to_error().text(), "the API server responded 502: <html>  <b>Bad Gateway</b>");
  EXPECT_EQ(status.retry_after, 5s);
}

TEST(ApiStatus, LimitsRetryAfter) {
  EXPECT_EQ(parse_retry_after("12"), 12s);
  EXPECT_EQ(parse_retry_after("99999999"), 3600s);
  EXPECT_EQ(parse_retry_after("-1"), std::nullopt);
  EXPECT_EQ(parse_retry_after("Wed, 21 Oct 2026 07:28:00 GMT"), std::nullopt);
  EXPECT_EQ(parse_status(R"({"kind":"Status","details":{"retryAfterSeconds":3}})")->retry_after, 3s);
}

TEST(Backoff, DoublesUpToTheCapAndStaysWithinHalfOfIt) {
  std::uint64_t next = 0;
  Backoff backoff({.first = 100ms, .cap = 1000ms}, [&] { return next; });
  EXPECT_EQ(backoff.next(), 100ms);
  EXPECT_EQ(backoff.next(), 200ms);
  next = ~std::uint64_t{0};
  EXPECT_EQ(backoff.next(), 200ms) << "half of 400";
  EXPECT_EQ(backoff.next(), 400ms) << "half of 800";
  next = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(backoff.next(), 1000ms);
  }
  backoff.reset();
  EXPECT_EQ(backoff.next(), 100ms);
}

TEST(Backoff, SpreadsTheRetriesOfManyClients) {
  Random random = default_random();
  std::chrono::milliseconds least = 1h;
  std::chrono::milliseconds most = 0ms;
  for (int i = 0; i < 1000; ++i) {
    Backoff backoff({.first = 1000ms, .cap = 1000ms}, random);
    const auto wait = backoff.next();
    least = std::min(least, wait);
    most = std::max(most, wait);
  }
  EXPECT_GE(least, 500ms);
  EXPECT_LE(most, 1000ms);
  EXPECT_GT(most - least, 400ms);
}

}  // namespace
}  // namespace tessera::kube
