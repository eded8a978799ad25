#include "fake_cluster.h"

#include <fmt/core.h>

#include <stdexcept>

#include "../kube/fake_api_server.h"
#include "base/strings.h"

namespace tessera::extender {

namespace {

using boost::json::object;
using boost::json::value;

http::Response answer(int code, const value& body) {
  return {.status = code, .body = boost::json::serialize(body)};
}

http::Response refusal(int code, const std::string& reason, const std::string& message) {
  return {.status = code, .body = kube::status_json(code, reason, message)};
}

// RFC 7396.
void merge_patch(value& into, const value& patch) {
  if (!patch.is_object()) {
    into = patch;
    return;
  }
  if (!into.is_object()) {
    into = object();
  }
  for (const auto& [key, part] : patch.as_object()) {
    if (part.is_null()) {
      into.as_object().erase(key);
    } else {
      merge_patch(into.as_object()[key], part);
    }
  }
}

object& part_of(object& whole, std::string_view key) {
  value& part = whole[key];
  if (!part.is_object()) {
    part = object();
  }
  return part.as_object();
}

// The value of "resourceVersion=7" in a query.
std::uint64_t version_asked(std::string_view query) {
  for (const std::string_view part : split(query, '&')) {
    constexpr std::string_view kKey = "resourceVersion=";
    if (part.starts_with(kKey)) {
      return static_cast<std::uint64_t>(parse_int(part.substr(kKey.size())).value_or(0));
    }
  }
  return 0;
}

// Of "fieldSelector=metadata.name%3Dx".
std::string name_asked(std::string_view query) {
  constexpr std::string_view kKey = "fieldSelector=metadata.name%3D";
  for (const std::string_view part : split(query, '&')) {
    if (part.starts_with(kKey)) {
      return std::string(part.substr(kKey.size()));
    }
  }
  return "";
}

}  // namespace

FakeCluster::FakeCluster() {
  auto server = http::Server::create(
      loop_, {}, [this](http::Request& request, http::Reply reply) { handle(request, std::move(reply)); });
  if (!server) {
    throw std::runtime_error(server.error().text());
  }
  server_.emplace(*std::move(server));
  thread_ = std::thread([this] { loop_.run(); });
}

FakeCluster::~FakeCluster() {
  loop_.call([this] {
    held_.clear();
    watches_.clear();
    server_.reset();
  });
  loop_.stop();
  thread_.join();
}

kube::ClusterAccess FakeCluster::access() const {
  kube::ClusterAccess access;
  access.cluster.server = fmt::format("http://127.0.0.1:{}", server_->port());
  return access;
}

FakeCluster::Place FakeCluster::place_of(std::string_view path) {
  std::vector<std::string_view> parts = split(path.substr(1), '/');
  parts.erase(parts.begin(), parts.begin() + (parts[0] == "api" ? 2 : 3));
  Place place;
  if (parts[0] == "namespaces" && parts.size() > 2) {
    place.namespace_name = parts[1];
    parts.erase(parts.begin(), parts.begin() + 2);
  }
  place.resource = parts[0];
  place.name = parts.size() > 1 ? parts[1] : "";
  place.subresource = parts.size() > 2 ? parts[2] : "";
  return place;
}

bool FakeCluster::is_of(const Place& place, const Key& key) {
  return (place.namespace_name.empty() || place.namespace_name == key.first) &&
         (place.name.empty() || place.name == key.second);
}

void FakeCluster::tell(const char* type, const Place& place, const object& object) {
  const Key key{place.namespace_name, place.name};
  const std::string line =
      fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, boost::json::serialize(object));
  history_[place.resource].emplace_back(version_, key, line);
  std::erase_if(watches_, [](const Watch& watch) { return !watch.stream.open(); });
  for (Watch& watch : watches_) {
    if (watch.of.resource == place.resource && is_of(watch.of, key)) {
      watch.stream.write(line);
    }
  }
}

const object& FakeCluster::store(const Place& place, object made) {
  object& metadata = part_of(made, "metadata");
  metadata["name"] = place.name;
  metadata["namespace"] = place.namespace_name;
  metadata["uid"] = "uid-" + place.name;
  metadata["resourceVersion"] = std::to_string(++version_);
  const auto [stored, is_new] =
      objects_[place.resource].insert_or_assign(Key{place.namespace_name, place.name}, std::move(made));
  tell(is_new ? "ADDED" : "MODIFIED", place, stored->second);
  return stored->second;
}

void FakeCluster::erase(const Place& place) {
  auto& all = objects_[place.resource];
  const auto found = all.find({place.namespace_name, place.name});
  if (found == all.end()) {
    return;
  }
  object gone = std::move(found->second);
  all.erase(found);
  part_of(gone, "metadata")["resourceVersion"] = std::to_string(++version_);
  tell("DELETED", place, gone);
}

void FakeCluster::put(const std::string& path, object made) {
  loop_.call([&] { store(place_of(path), std::move(made)); });
}

void FakeCluster::remove(const std::string& path) {
  loop_.call([&] { erase(place_of(path)); });
}

value FakeCluster::get(const std::string& path) {
  value found;
  loop_.call([&] {
    const Place place = place_of(path);
    const auto& all = objects_[place.resource];
    if (const auto one = all.find({place.namespace_name, place.name}); one != all.end()) {
      found = one->second;
    }
  });
  return found;
}

std::vector<object> FakeCluster::all(const std::string& resource) {
  std::vector<object> found;
  loop_.call([&] {
    for (const auto& [key, one] : objects_[resource]) {
      found.push_back(one);
    }
  });
  return found;
}

void FakeCluster::hold_bindings() {
  loop_.call([this] { holding_ = true; });
}

void FakeCluster::let_bindings_go() {
  loop_.call([this] {
    holding_ = false;
    for (const auto& go_on : std::exchange(held_, {})) {
      go_on();
    }
  });
}

std::chrono::milliseconds FakeCluster::time_of_last_binding() {
  std::chrono::milliseconds time{0};
  loop_.call([&] { time = binding_time_; });
  return time;
}

std::size_t FakeCluster::held_bindings() {
  std::size_t count = 0;
  loop_.call([&] { count = held_.size(); });
  return count;
}

void FakeCluster::cut_watches() {
  loop_.call([this] { watches_.clear(); });
}

void FakeCluster::handle(http::Request& request, http::Reply reply) {
  Place place = place_of(request.path());
  if (request.method() == "GET" && place.name.empty()) {
    place.name = name_asked(request.query());
    if (request.query().find("watch=") != std::string_view::npos) {
      watch(place, version_asked(request.query()), std::move(reply));
    } else {
      list(place, std::move(reply));
    }
    return;
  }
  if (place.subresource == "binding") {
    const std::string_view query = request.query();
    constexpr std::string_view kKey = "timeout=";
    const std::size_t at = query.find(kKey);
    binding_time_ = std::chrono::milliseconds(
        at == std::string_view::npos ? 0 : std::stoll(std::string(query.substr(at + kKey.size()))));
  }
  if (place.subresource == "binding" && holding_) {
    held_.emplace_back([this, place, body = std::string(request.body().text()),
                        to = std::make_shared<http::Reply>(std::move(reply))] {
      to->send(bind(place, boost::json::parse(body)));
    });
    return;
  }
  reply.send(change(request.method(), place, request.body().text()));
}

void FakeCluster::list(const Place& place, http::Reply reply) {
  boost::json::array items;
  for (const auto& [key, one] : objects_[place.resource]) {
    if (is_of(place, key)) {
      items.push_back(one);
    }
  }
  reply.send(answer(200, {{"kind", "List"},
                          {"apiVersion", "v1"},
                          {"metadata", {{"resourceVersion", std::to_string(version_)}}},
                          {"items", std::move(items)}}));
}

void FakeCluster::watch(const Place& place, std::uint64_t from, http::Reply reply) {
  Watch& opened = watches_.emplace_back(Watch{.stream = reply.stream({}), .of = place});
  for (const auto& [version, key, line] : history_[place.resource]) {
    if (version > from && is_of(place, key)) {
      opened.stream.write(line);
    }
  }
}

http::Response FakeCluster::change(std::string_view method, const Place& place, std::string_view body) {
  auto& all = objects_[place.resource];
  const value sent = body.empty() ? value() : boost::json::parse(body);
  if (method == "POST" && place.name.empty()) {
    Place made = place;
    made.name = sent.at("metadata").at("name").as_string();
    return all.contains({made.namespace_name, made.name})
               ? refusal(409, "AlreadyExists", "it is there already")
               : answer(201, store(made, sent.as_object()));
  }
  const auto found = all.find({place.namespace_name, place.name});
  if (found == all.end()) {
    return refusal(404, "NotFound", "there is no such object");
  }
  if (method == "GET") {
    return answer(200, found->second);
  }
  if (place.subresource == "binding") {
    return bind(place, sent);
  }
  const value* version = sent.is_object() ? sent.as_object().if_contains("metadata") : nullptr;
  version = version == nullptr ? nullptr : version->as_object().if_contains("resourceVersion");
  if (version != nullptr && *version != found->second.at("metadata").at("resourceVersion")) {
    return refusal(409, "Conflict", "the object has been modified");
  }
  value patched = found->second;
  merge_patch(patched, sent);
  return answer(200, store(place, std::move(patched.as_object())));
}

http::Response FakeCluster::bind(const Place& place, const value& binding) {
  const auto found = objects_["pods"].find({place.namespace_name, place.name});
  if (found == objects_["pods"].end()) {
    return refusal(404, "NotFound", "there is no such pod");
  }
  object bound = found->second;
  object& spec = part_of(bound, "spec");
  if (const value* node = spec.if_contains("nodeName"); node != nullptr && !node->as_string().empty()) {
    return refusal(409, "Conflict", "the pod is already assigned to a node");
  }
  spec["nodeName"] = binding.at("target").at("name");
  object& annotations = part_of(part_of(bound, "metadata"), "annotations");
  for (const auto& [key, text] : binding.at("metadata").at("annotations").as_object()) {
    annotations[key] = text;
  }
  store({.resource = "pods", .namespace_name = place.namespace_name, .name = place.name, .subresource = ""},
        std::move(bound));
  return answer(201, {{"kind", "Status"}, {"status", "Success"}});
}

}  // namespace tessera::extender
