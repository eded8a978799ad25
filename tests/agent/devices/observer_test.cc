#include "agent/devices/observer.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/client.h"
#include "http/event_loop.h"

namespace tessera::agent {
namespace {

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

}  // namespace
}  // namespace tessera::agent
