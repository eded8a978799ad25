#include "fake_cluster.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"

namespace tessera::agent {

namespace {

using boost::json::object;
using boost::json::value;

// RFC 7386; where `strategic`, the list `conditions` is merged by `type` as the API server does.
void merge(object& into, const object& patch, bool strategic);

void merge_conditions(value& into, const boost::json::array& patch) {
  if (!into.is_array()) {
    into = boost::json::array();
  }
  boost::json::array& have = into.as_array();
  for (const value& entry : patch) {
    const auto same = std::ranges::find_if(
        have, [&](const value& one) { return one.as_object().at("type") == entry.as_object().at("type"); });
    if (same == have.end()) {
      have.push_back(entry);
    } else {
      merge(same->as_object(), entry.as_object(), true);
    }
  }
}

void merge(object& into, const object& patch, bool strategic) {
  for (const auto& [name, change] : patch) {
    if (change.is_null()) {
      into.erase(name);
    } else if (change.is_object()) {
      value& target = into[name];
      if (!target.is_object()) {
        target = object();
      }
      merge(target.as_object(), change.as_object(), strategic);
    } else if (strategic && name == "conditions") {
      merge_conditions(into[name], change.as_array());
    } else {
      into[name] = change;
    }
  }
}

std::string member(const object& from, const char* name) {
  const value* found = from.if_contains(name);
  return found == nullptr || !found->is_string() ? "" : std::string(found->as_string());
}

}  // namespace

FakeCluster::FakeCluster() {
  log::Options quiet;
  quiet.level = log::Level::kOff;
  EXPECT_TRUE(log::configure(quiet));
  auto made = http::Server::create(loop_, {}, [this](http::Request& request, http::Reply reply) {
    seen.push_back({.method = std::string(request.method()),
                    .path = std::string(request.path()),
                    .content_type = std::string(request.headers().find("Content-Type")),
                    .body = std::string(request.body().text())});
    if (intercept) {
      if (auto answer = intercept(seen.back())) {
        reply.send(std::move(*answer));
        return;
      }
    }
    reply.send(serve(Seen(seen.back())));
  });
  EXPECT_TRUE(made) << made.error().text();
  server_.emplace(*std::move(made));
}

http::Response FakeCluster::refusal(int status, const std::string& reason) {
  return {.status = status,
          .body = boost::json::serialize(object{{"kind", "Status"},
                                                {"status", "Failure"},
                                                {"reason", reason},
                                                {"message", "the test says no"},
                                                {"code", status}})};
}

void FakeCluster::put(const std::string& path, const std::string& json) {
  object made = boost::json::parse(json).as_object();
  object& metadata =
      made["metadata"].is_object() ? made["metadata"].as_object() : made["metadata"].emplace_object();
  metadata["resourceVersion"] = std::to_string(++version_);
  if (!metadata.contains("uid")) {
    metadata["uid"] = fmt::format("uid-{}", version_);
  }
  objects_[path] = std::move(made);
}

const object* FakeCluster::find(const std::string& path) const {
  const auto found = objects_.find(path);
  return found == objects_.end() ? nullptr : &found->second;
}

std::string FakeCluster::text(const std::string& path, const char* map, std::string_view name) const {
  const object* found = find(path);
  if (found == nullptr) {
    return "-";
  }
  const value* inside = found->at("metadata").as_object().if_contains(map);
  const value* entry = inside == nullptr ? nullptr : inside->as_object().if_contains(name);
  return entry == nullptr ? "-" : std::string(entry->as_string());
}

void FakeCluster::change(const std::string& path, const std::string& patch_text) {
  EXPECT_EQ(patch(path, patch_text, false).status, 200);
}

std::size_t FakeCluster::count(std::string_view method) const {
  return static_cast<std::size_t>(std::ranges::count(seen, method, &Seen::method));
}

std::vector<std::string> FakeCluster::events() const {
  std::vector<std::string> all;
  for (const Seen& request : seen) {
    if (request.method == "POST" && request.path.ends_with("/events")) {
      const object event = boost::json::parse(request.body).as_object();
      const object& about = event.at("involvedObject").as_object();
      all.push_back(fmt::format("{} {} {}/{}: {}", member(event, "type"), member(event, "reason"),
                                member(about, "kind"), member(about, "name"), member(event, "message")));
    }
  }
  return all;
}

kube::Client FakeCluster::client() {
  kube::ClusterAccess access;
  access.cluster.server = fmt::format("http://127.0.0.1:{}", server_->port());
  auto made = kube::Client::create(
      loop_, access,
      {.backoff = {.first = std::chrono::milliseconds(1), .cap = std::chrono::milliseconds(2)}});
  EXPECT_TRUE(made) << made.error().text();
  return *std::move(made);
}

void FakeCluster::run_until(const std::function<bool()>& done) {
  EXPECT_TRUE(loop_.run_until(done, std::chrono::seconds(20))) << "the condition did not become true";
}

void FakeCluster::run_for(std::chrono::milliseconds time) {
  loop_.run_until([] { return false; }, time);
}

http::Response FakeCluster::patch(const std::string& path, const std::string& body, bool strategic) {
  constexpr std::string_view kStatus = "/status";
  const bool status = path.ends_with(kStatus);
  const auto found = objects_.find(status ? path.substr(0, path.size() - kStatus.size()) : path);
  if (found == objects_.end()) {
    return refusal(404, "NotFound");
  }
  const object changes = boost::json::parse(body).as_object();
  object& metadata = found->second.at("metadata").as_object();
  if (const value* inside = changes.if_contains("metadata")) {
    const std::string at = member(inside->as_object(), "resourceVersion");
    if (!at.empty() && at != member(metadata, "resourceVersion")) {
      return refusal(409, "Conflict");
    }
  }
  merge(found->second, changes, strategic);
  found->second.at("metadata").as_object()["resourceVersion"] = std::to_string(++version_);
  return {.body = boost::json::serialize(found->second)};
}

http::Response FakeCluster::serve(const Seen& request) {
  if (request.method == "PATCH") {
    return patch(request.path, request.body,
                 request.content_type == "application/strategic-merge-patch+json");
  }
  if (request.method == "POST") {
    const object made = boost::json::parse(request.body).as_object();
    const std::string name = member(made.at("metadata").as_object(), "name");
    if (request.path.ends_with("/eviction")) {
      return {.status = 201, .body = request.body};
    }
    if (find(request.path + "/" + name) != nullptr) {
      return refusal(409, "AlreadyExists");
    }
    put(request.path + "/" + name, request.body);
    return {.status = 201, .body = boost::json::serialize(*find(request.path + "/" + name))};
  }
  const object* found = find(request.path);
  if (found == nullptr) {
    return refusal(404, "NotFound");
  }
  const std::string body = boost::json::serialize(*found);
  if (request.method == "DELETE") {
    objects_.erase(request.path);
  }
  return {.body = body};
}

}  // namespace tessera::agent
