#include "test_cluster.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace tessera::agent {

namespace {

using boost::json::object;
using boost::json::value;

std::string member(const object& from, std::string_view name) {
  const value* found = from.if_contains(name);
  return found == nullptr || !found->is_string() ? "" : std::string(found->as_string());
}

}  // namespace

TestCluster::TestCluster() {
  log::Options quiet;
  quiet.level = log::Level::kOff;
  EXPECT_TRUE(log::configure(quiet));
}

void TestCluster::put(const std::string& path, const std::string& json) {
  api_.put(path, boost::json::parse(json).as_object());
}

void TestCluster::change(const std::string& path, const std::string& merge_patch) {
  api_.change(path, boost::json::parse(merge_patch).as_object());
}

std::string TestCluster::text(const std::string& path, std::string_view map, std::string_view name) {
  const value found = get(path);
  if (found.is_null()) {
    return "-";
  }
  const value* entries = found.at("metadata").as_object().if_contains(map);
  const value* entry = entries == nullptr ? nullptr : entries->as_object().if_contains(name);
  return entry == nullptr ? "-" : std::string(entry->as_string());
}

std::string TestCluster::path(const Seen& request) {
  return request.target.substr(0, request.target.find('?'));
}

std::size_t TestCluster::count(std::string_view method) const {
  return static_cast<std::size_t>(std::ranges::count(seen(), method, &Seen::method));
}

std::vector<std::string> TestCluster::events() const {
  std::vector<std::string> all;
  for (const Seen& request : seen()) {
    if (request.method == "POST" && path(request).ends_with("/events")) {
      const object event = boost::json::parse(request.body).as_object();
      const object& about = event.at("involvedObject").as_object();
      all.push_back(fmt::format("{} {} {}/{}: {}", member(event, "type"), member(event, "reason"),
                                member(about, "kind"), member(about, "name"), member(event, "message")));
    }
  }
  return all;
}

http::Response TestCluster::refusal(int status, const std::string& reason) {
  return {.status = status, .body = kube::status_json(status, reason, "refused by the test")};
}

kube::Client TestCluster::client(std::string user_agent) {
  auto created = kube::Client::create(
      loop_, api_.access(),
      {.user_agent = std::move(user_agent),
       .backoff = {.first = std::chrono::milliseconds(1), .cap = std::chrono::milliseconds(2)}});
  EXPECT_TRUE(created) << created.error().text();
  return *std::move(created);
}

void TestCluster::run_until(const std::function<bool()>& done) {
  EXPECT_TRUE(loop_.run_until(done, std::chrono::seconds(20))) << "the condition did not become true";
}

void TestCluster::run_for(std::chrono::milliseconds time) {
  loop_.run_until([] { return false; }, time);
}

}  // namespace tessera::agent
