// The fake API server of tests/kube with its own event loop, which the test runs, and with the
// queries that tests of the agent need.
//
//   TestCluster cluster;
//   cluster.put("/api/v1/nodes/gpu-a", R"({"metadata":{"labels":{"gpushare":"true"}}})");
//   kube::Client client = cluster.client();
//   cluster.run_until([&] { return cluster.writes() == 1; });
//   EXPECT_EQ(cluster.text("/api/v1/nodes/gpu-a", "labels", "gpushare"), "true");
#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fake_api_server.h"
#include "http/event_loop.h"
#include "http/server.h"
#include "kube/client.h"

namespace tessera::agent {

class TestCluster {
 public:
  using Seen = kube::FakeApiServer::Seen;

  // Turns off logging.
  TestCluster();

  // Creates or replaces an object.
  void put(const std::string& path, const std::string& json);
  // Applies a merge patch, as another client would.
  void change(const std::string& path, const std::string& merge_patch);
  void remove(const std::string& path) { api_.remove(path); }
  // Returns null if there is no such object.
  [[nodiscard]] boost::json::value get(const std::string& path) { return api_.get(path); }
  [[nodiscard]] bool has(const std::string& path) { return !get(path).is_null(); }
  // Returns an entry of a map in the metadata, such as "labels", or "-" if there is none.
  [[nodiscard]] std::string text(const std::string& path, std::string_view map, std::string_view name);

  // Returns all requests so far.
  [[nodiscard]] const std::vector<Seen>& seen() const { return api_.seen; }
  // Returns the target of a request without its query.
  [[nodiscard]] static std::string path(const Seen& request);
  [[nodiscard]] std::size_t count(std::string_view method) const;
  // Returns the number of PATCH, POST and DELETE requests.
  [[nodiscard]] std::size_t writes() const { return seen().size() - count("GET"); }
  // Returns the Events that clients created, in order: "Warning GpuUnhealthy Node/gpu-a: ...".
  [[nodiscard]] std::vector<std::string> events() const;

  // Calls `intercept` for each request. If it returns a response, the request is not processed.
  void set_intercept(std::function<std::optional<http::Response>(const Seen&)> intercept) {
    api_.intercept = std::move(intercept);
  }
  // Returns an error for `intercept`, with the message "refused by the test".
  [[nodiscard]] static http::Response refusal(int status, const std::string& reason);

  // Returns a client that retries quickly. A test fails if the client of tessera-agent writes a key
  // that is not the agent's (written_keys.h).
  [[nodiscard]] kube::Client client(std::string user_agent = "tessera-agent/test");
  [[nodiscard]] http::EventLoop& loop() { return loop_; }
  // Runs the loop until `done` returns true. The test fails if that takes too long.
  void run_until(const std::function<bool()>& done);
  // Runs the loop for this long, to show that something does not happen.
  void run_for(std::chrono::milliseconds time);

 private:
  http::EventLoop loop_;
  kube::FakeApiServer api_{loop_};
};

}  // namespace tessera::agent
