#include "agent/devices/observer.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/devices/measured_answers.h"
#include "http/client.h"
#include "http/event_loop.h"

namespace tessera::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ObserverTest : public ::testing::Test {
 protected:
  ObserverTest() {
    auto server = http::Server::create(loop_, {}, [this](http::Request& request, http::Reply reply) {
      observer_.handle(request, std::move(reply));
    });
    EXPECT_TRUE(server);
    server_.emplace(*std::move(server));
  }

  http::ClientResponse get(const std::string& path, const std::string& method = "GET") {
    auto client = http::Client::create(loop_, {.url = fmt::format("http://127.0.0.1:{}", server_->port())});
    EXPECT_TRUE(client) << client.error().text();
    auto answer = client->fetch({.method = method, .target = path});
    EXPECT_TRUE(answer) << answer.error().text();
    return *std::move(answer);
  }

  http::EventLoop loop_;
  std::string missing_;
  Observer observer_{{.not_ready = [this] { return missing_; },
                      .readings = [](Readings& readings) { readings.gauge("things", "x", 3); },
                      .allocations = [] { return std::string(R"({"node":"gpu-a"})"); }}};
  std::optional<http::Server> server_;
};

TEST_F(ObserverTest, ServesProbesMetricsAndAllocations) {
  EXPECT_EQ(get("/healthz").status, 200);
  EXPECT_EQ(get("/readyz").status, 200);
  missing_ = "kubelet does not know aliyun.com/gpu yet";
  EXPECT_EQ(get("/readyz").status, 503);
  EXPECT_THAT(get("/readyz").body.text(), HasSubstr("aliyun.com/gpu yet"));
  EXPECT_THAT(get("/metrics").body.text(), HasSubstr("\nthings 3\n"));
  EXPECT_THAT(get("/allocations").body.text(), HasSubstr(R"("node":"gpu-a")"));
  EXPECT_EQ(get("/version").status, 200);
  EXPECT_EQ(get("/nothing").status, 404);
  EXPECT_EQ(get("/metrics", "POST").status, 405);
}

class Slow final : public KubeletAnswers {
 public:
  void prefer(Preference preference, std::function<void(std::vector<std::string>)> done) override {
    done(std::move(preference.available));
  }
  void allocate(std::vector<std::string> /*ids*/, std::function<void(Result<Grant>)> done) override {
    done(fail(ErrorCode::kExhausted, "no"));
  }
  void pre_start(std::vector<std::string> /*ids*/, std::function<void(Status)> done) override {
    later = std::move(done);
  }
  std::function<void(Status)> later;
};

TEST(MeasuredAnswers, CountsAnAnswerWhenItIsGivenAndPassesItOn) {
  Slow slow;
  std::vector<std::string> calls;
  MeasuredAnswers answers(slow, [&](std::string_view call, bool well, std::chrono::nanoseconds took) {
    EXPECT_GE(took, 0ns);
    calls.push_back(std::string(call) + (well ? " ok" : " error"));
  });
  std::vector<std::string> preferred;
  answers.prefer({.available = {"a"}, .must_include = {}, .size = 1}, [&](auto ids) { preferred = ids; });
  answers.allocate({"a"}, [&](const Result<Grant>& grant) { EXPECT_FALSE(grant); });
  bool started = false;
  answers.pre_start({"a"}, [&](const Status& status) { started = status.has_value(); });
  EXPECT_THAT(preferred, ElementsAre("a"));
  EXPECT_THAT(calls, ElementsAre("prefer ok", "allocate error"));
  slow.later({});
  EXPECT_TRUE(started);
  EXPECT_EQ(calls.back(), "pre_start ok");
}

}  // namespace
}  // namespace tessera::agent
