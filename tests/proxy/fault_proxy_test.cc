// Each fault affects the requests that match it, and no others.
#include "fault_proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <optional>

#include "http/client.h"
#include "server_fixture.h"
#include "test_certificates.h"

namespace tessera::proxy {
namespace {

using namespace std::chrono_literals;
using http::ClientResponse;
using http::eventually;
using http::Flow;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A server with three watch events ("/watch?watch=true"), TLS on both sides of the proxy.
class FaultProxyTest : public http::ServerTest {
 protected:
  FaultProxyTest() : ca_("test authority") {
    const http::PemPair pair = ca_.issue({.addresses = {"127.0.0.1"}});
    const http::TlsIdentity identity{.certificate_pem = pair.certificate, .key_pem = pair.key};
    serve({.tls = http::ServerTls{.identity = identity}}, [this](http::Request& request, http::Reply reply) {
      ++served_;
      if (request.path() == "/watch") {
        http::ReplyStream stream = reply.stream({.body = "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n"});
        if (request.query().find("forever") != std::string_view::npos) {
          open_.push_back(std::move(stream));
        } else {
          stream.end();
        }
        return;
      }
      reply.send({.body = std::string(request.method()) + " " + std::string(request.body().text())});
    });
    proxy_.emplace(FaultProxy::start({.upstream = "https://127.0.0.1:" + std::to_string(server_->port()),
                                      .upstream_ca = ca_.certificate(),
                                      .tls = identity})
                       .value());
    client_.emplace(
        http::Client::create(loop_, {.url = proxy_->url(), .tls = {.ca_pem = ca_.certificate()}}).value());
  }
  ~FaultProxyTest() override {
    client_.reset();
    proxy_.reset();
    loop_.call([this] { open_.clear(); });
  }

  // The received text of a watch, and how it ended.
  struct Watched {
    std::string text;
    Status end;
  };
  Watched watch(const std::string& more = "", std::chrono::milliseconds idle = 10s) {
    std::promise<Status> end;
    Watched watched;
    const http::Call call = client_->stream(
        {.target = "/watch?watch=true" + more, .timeouts = http::ClientTimeouts{.idle = idle}},
        {.on_data =
             [&](json::PaddedView piece) {
               watched.text += piece.text();
               return Flow::kContinue;
             }},
        [&](Status status) { end.set_value(std::move(status)); });
    watched.end = end.get_future().get();
    return watched;
  }

  http::TestAuthority ca_;
  std::optional<FaultProxy> proxy_;
  std::optional<http::Client> client_;
  std::atomic<int> served_ = 0;
  std::vector<http::ReplyStream> open_;  // used only on the loop's thread
};

constexpr const char* kAllLines = "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n";

TEST_F(FaultProxyTest, ForwardsEverythingUnchanged) {
  for (int i = 0; i < 3; ++i) {
    const auto response = client_->fetch({.method = "POST", .target = "/x", .body = "hello"});
    ASSERT_TRUE(response) << response.error().text();
    EXPECT_EQ(response->body.text(), "POST hello");
  }
  const Watched watched = watch();
  EXPECT_TRUE(watched.end);
  EXPECT_EQ(watched.text, kAllLines);
  EXPECT_EQ(proxy_->hits(), 0U);
}

TEST_F(FaultProxyTest, RespondsInPlaceOfTheServer) {
  proxy_->inject({.kind = FaultKind::kAnswer,
                  .method = "POST",
                  .target_has = "/binding",
                  .status = 429,
                  .headers = {{"Retry-After", "3"}}});
  EXPECT_EQ(client_->fetch({.target = "/binding"})->status, 200);
  const auto response = client_->fetch({.method = "POST", .target = "/pods/a/binding"});
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 429);
  EXPECT_EQ(response->headers.find("Retry-After"), "3");
  EXPECT_THAT(response->body.text(), HasSubstr("\"reason\":\"TooManyRequests\",\"code\":429"));
  EXPECT_EQ(served_, 1);
  EXPECT_EQ(client_->fetch({.method = "POST", .target = "/pods/a/binding"})->status, 200);
  EXPECT_EQ(proxy_->hits(), 1U);
}

TEST_F(FaultProxyTest, SkipsAndRepeats) {
  proxy_->inject({.kind = FaultKind::kAnswer, .skip = 1, .times = 2, .status = 503});
  std::vector<int> statuses;
  for (int i = 0; i < 4; ++i) {
    statuses.push_back(client_->fetch({})->status);
  }
  EXPECT_THAT(statuses, ElementsAre(200, 503, 503, 200));
}

TEST_F(FaultProxyTest, CutsBeforeTheServerSeesTheRequest) {
  proxy_->inject({.kind = FaultKind::kCut, .reset = true});
  const auto response = client_->fetch({.method = "POST"});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kTimeout);  // the client cannot know
  EXPECT_EQ(served_, 0);
}

TEST_F(FaultProxyTest, LosesTheResponseToAProcessedRequest) {
  proxy_->inject({.kind = FaultKind::kLoseAnswer});
  const auto response = client_->fetch({.method = "POST"});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kTimeout);
  EXPECT_EQ(served_, 1);
}

TEST_F(FaultProxyTest, TruncatesABody) {
  proxy_->inject({.kind = FaultKind::kTruncate, .after_bytes = 3});
  const auto response = client_->fetch({});
  ASSERT_FALSE(response);
  EXPECT_THAT(response.error().text(),
              ::testing::ContainsRegex("in the middle of its response|connection broke"));
}

TEST_F(FaultProxyTest, DelaysARequest) {
  proxy_->inject({.kind = FaultKind::kDelay, .delay = 60ms});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(client_->fetch({}));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 60ms);
}

TEST_F(FaultProxyTest, CutsAStreamInTheMiddleOfAChunk) {
  proxy_->inject({.kind = FaultKind::kHalfChunk, .target_has = "watch=", .after_lines = 2});
  const Watched watched = watch();
  EXPECT_FALSE(watched.end);
  EXPECT_EQ(watched.text, "{\"n\":1}\n{\"n\":2}\n{\"n\"");
}

TEST_F(FaultProxyTest, DuplicatesEvents) {
  proxy_->inject({.kind = FaultKind::kDuplicate, .after_lines = 1});
  const Watched watched = watch();
  EXPECT_TRUE(watched.end);
  EXPECT_EQ(watched.text, "{\"n\":1}\n{\"n\":2}\n{\"n\":2}\n{\"n\":3}\n{\"n\":3}\n");
}

TEST_F(FaultProxyTest, EndsAStreamCleanly) {
  proxy_->inject({.kind = FaultKind::kEndStream, .after_lines = 1});
  const Watched watched = watch();
  EXPECT_TRUE(watched.end) << watched.end.error().text();
  EXPECT_EQ(watched.text, "{\"n\":1}\n");
}

TEST_F(FaultProxyTest, StallsAWatchUntilTheClientTimesOut) {
  proxy_->inject({.kind = FaultKind::kStall, .after_lines = 1});
  const Watched watched = watch("&forever", 500ms);
  ASSERT_FALSE(watched.end);
  EXPECT_EQ(watched.end.error().code(), ErrorCode::kTimeout);
  EXPECT_EQ(watched.text, "{\"n\":1}\n");
  EXPECT_TRUE(eventually([&] { return proxy_->open_connections() == 0; }));
}

TEST_F(FaultProxyTest, ClearContinuesAStalledWatch) {
  proxy_->inject({.kind = FaultKind::kStall, .after_lines = 1});
  auto watched = std::async(std::launch::async, [&] { return watch(); });
  ASSERT_TRUE(eventually([&] { return proxy_->hits() == 1; }));
  // The hit is counted before the stall begins, so clear again until the watch has continued.
  while (watched.wait_for(0s) != std::future_status::ready) {
    proxy_->clear();
    std::this_thread::yield();
  }
  EXPECT_EQ(watched.get().text, kAllLines);
}

TEST_F(FaultProxyTest, CutsEveryConnectionAtOnce) {
  auto watched = std::async(std::launch::async, [&] { return watch("&forever"); });
  ASSERT_TRUE(eventually([&] { return served_ == 1 && proxy_->open_connections() == 1; }));
  proxy_->cut_all();
  EXPECT_FALSE(watched.get().end);
  EXPECT_TRUE(client_->fetch({}));
}

TEST_F(FaultProxyTest, FreezesLikeAPulledCable) {
  EXPECT_TRUE(client_->fetch({}));
  proxy_->freeze(true);
  const auto response = client_->fetch({.timeouts = http::ClientTimeouts{.first_byte = 50ms}});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kTimeout);
  proxy_->freeze(false);
  EXPECT_TRUE(client_->fetch({}));
}

TEST_F(FaultProxyTest, RefusesNewConnections) {
  proxy_->refuse(true);
  const auto response = client_->fetch({.method = "POST"});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kUnavailable);
  proxy_->refuse(false);
  EXPECT_TRUE(client_->fetch({.method = "POST"}));
}

TEST_F(FaultProxyTest, RecordsTheRequests) {
  proxy_->inject({.kind = FaultKind::kAnswer, .target_has = "/b", .status = 409});
  EXPECT_TRUE(client_->fetch({.target = "/a"}));
  EXPECT_TRUE(client_->fetch({.target = "/b"}));
  // The entry is added before the response of a fault, but after the response of the server.
  ASSERT_TRUE(eventually([&] { return proxy_->seen().size() == 2; }));
  EXPECT_EQ(proxy_->seen()[0].status, 200);
  EXPECT_EQ(proxy_->seen()[1].status, 409);
  EXPECT_TRUE(proxy_->seen()[1].faulty);
}

TEST(ParseFault, ParsesTheFormatOfTheControlPort) {
  const Fault fault =
      parse_fault(R"({"kind":"half-chunk","method":"GET","target":"watch=","skip":1,"times":-1,
                                      "status":410,"retry_after":5,"delay_ms":7,"after_bytes":8,"after_lines":9,
                                      "reset":true,"body":"x"})")
          .value();
  EXPECT_EQ(fault.kind, FaultKind::kHalfChunk);
  EXPECT_EQ(fault.method, "GET");
  EXPECT_EQ(fault.target_has, "watch=");
  EXPECT_EQ(fault.skip, 1);
  EXPECT_EQ(fault.times, -1);
  EXPECT_EQ(fault.status, 410);
  EXPECT_THAT(fault.headers, ElementsAre(std::pair<std::string, std::string>("Retry-After", "5")));
  EXPECT_EQ(fault.delay, 7ms);
  EXPECT_EQ(fault.after_bytes, 8U);
  EXPECT_EQ(fault.after_lines, 9U);
  EXPECT_TRUE(fault.reset);
  EXPECT_EQ(fault.body, "x");
  EXPECT_THAT(parse_fault(R"({"kind":"cut"})").value().headers, IsEmpty());
}

TEST(ParseFault, RejectsInvalidFaults) {
  for (const char* text : {"", "{}", R"({"kind":"explode"})", R"({"kind":"answer","status":99})"}) {
    EXPECT_FALSE(parse_fault(text)) << text;
  }
}

}  // namespace
}  // namespace tessera::proxy
