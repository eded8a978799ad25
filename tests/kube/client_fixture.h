// tests/kube/client_fixture.h
//
// Test fixture with a client of the fake API server, on the test's event loop.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "fake_api_server.h"
#include "kube/client.h"

namespace tessera::kube {

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() : server_(loop_) {
    log::Options quiet;
    quiet.level = log::Level::kOff;
    EXPECT_TRUE(log::configure(quiet));
    access_.cluster.server = server_.url();
  }

  // Makes `plugin` the source of credentials.
  void use_plugin(Credentials::RunPlugin plugin) {
    access_.user.exec = ExecPlugin{.api_version = "client.authentication.k8s.io/v1",
                                   .command = "plugin",
                                   .args = {},
                                   .env = {},
                                   .install_hint = "",
                                   .provide_cluster_info = false};
    options_.run_plugin = std::move(plugin);
  }

  Client client() {
    auto client = Client::create(loop_, access_, options_);
    EXPECT_TRUE(client) << client.error().text();
    return std::move(*client);
  }
  // Sends these responses to the first requests, and 200 to all later ones.
  void respond_with(std::vector<http::Response> responses) {
    server_.intercept = [responses = std::move(responses), next = std::size_t{0}](
                            const FakeApiServer::Seen&) mutable -> std::optional<http::Response> {
      return next < responses.size() ? responses[next++] : http::Response{.body = R"({"ok":true})"};
    };
  }
  static http::Response refusal(int code, std::vector<std::pair<std::string, std::string>> headers = {}) {
    return {.status = code,
            .body = status_json(code, "Reason", "the test says no"),
            .headers = std::move(headers)};
  }

  http::EventLoop loop_;
  FakeApiServer server_;
  ClusterAccess access_;
  ClientOptions options_{
      .user_agent = "tessera-test/1",
      .backoff = {.first = std::chrono::milliseconds(1), .cap = std::chrono::milliseconds(2)}};
};

}  // namespace tessera::kube
