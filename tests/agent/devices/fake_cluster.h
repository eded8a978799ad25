// The part of an API server that the agent writes to: objects by path, merge patches, creation,
// deletion, and errors on demand. Runs on the test's own loop.
//
//   FakeCluster cluster;
//   cluster.put("/api/v1/nodes/gpu-a", R"({"metadata":{"name":"gpu-a"}})");
//   kube::Client client = cluster.client();
//   cluster.run_until([&] { return cluster.writes() == 1; });
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "http/event_loop.h"
#include "http/server.h"
#include "kube/client.h"

namespace tessera::agent {

class FakeCluster {
 public:
  FakeCluster();

  // Adds a resourceVersion, and a UID if the object has none.
  void put(const std::string& path, const std::string& json);
  void remove(const std::string& path) { objects_.erase(path); }
  // Null when there is none.
  [[nodiscard]] const boost::json::object* find(const std::string& path) const;
  // A text below metadata: text("/api/v1/nodes/gpu-a", "labels", "gpushare"); "-" when it is not
  // there.
  [[nodiscard]] std::string text(const std::string& path, const char* map, std::string_view name) const;
  // A merge patch by another client.
  void change(const std::string& path, const std::string& patch);

  struct Seen {
    std::string method;
    std::string path;
    std::string content_type;
    std::string body;
  };
  std::vector<Seen> seen;
  [[nodiscard]] std::size_t count(std::string_view method) const;
  // PATCH, POST, DELETE.
  [[nodiscard]] std::size_t writes() const { return seen.size() - count("GET"); }
  // Messages of the Events that were created, in order: "Warning GpuUnhealthy Node/gpu-a: ...".
  [[nodiscard]] std::vector<std::string> events() const;

  // Called before a request is served; a result replaces the response.
  std::function<std::optional<http::Response>(const Seen&)> intercept;
  // An error for `intercept`.
  static http::Response refusal(int status, const std::string& reason);

  // Retries quickly.
  [[nodiscard]] kube::Client client();
  http::EventLoop& loop() { return loop_; }
  // Serves until `done`; the test fails if that takes too long.
  void run_until(const std::function<bool()>& done);
  // Serves for a while; nothing is expected to happen.
  void run_for(std::chrono::milliseconds time);

 private:
  http::Response serve(const Seen& request);
  http::Response patch(const std::string& path, const std::string& body, bool strategic);

  http::EventLoop loop_;
  std::map<std::string, boost::json::object> objects_;
  int version_ = 1;
  std::optional<http::Server> server_;
};

}  // namespace tessera::agent
