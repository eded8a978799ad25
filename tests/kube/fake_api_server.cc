#include "fake_api_server.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "base/strings.h"
#include "written_keys.h"

namespace tessera::kube {

namespace {

using boost::json::object;
using boost::json::value;

std::string percent_decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      plain.push_back(static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16)));
      i += 2;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

std::map<std::string, std::string> parse_query(std::string_view query) {
  std::map<std::string, std::string> values;
  for (const std::string_view part : split(query, '&')) {
    const std::size_t equals = part.find('=');
    if (equals != std::string_view::npos) {
      values[std::string(part.substr(0, equals))] = percent_decoded(part.substr(equals + 1));
    }
  }
  return values;
}

std::uint64_t number_in(const std::map<std::string, std::string>& query, const char* key,
                        std::uint64_t otherwise) {
  const auto found = query.find(key);
  return found == query.end() ? otherwise : static_cast<std::uint64_t>(parse_int(found->second).value());
}

http::Response success(int code, const value& body) {
  return {.status = code, .body = boost::json::serialize(body)};
}

http::Response failure(int code, const std::string& reason, const std::string& message) {
  return {.status = code, .body = status_json(code, reason, message)};
}

object& object_in(object& whole, std::string_view key) {
  value& part = whole[key];
  if (!part.is_object()) {
    part = object();
  }
  return part.as_object();
}

std::string text_in(const object& from, std::string_view key) {
  const value* found = from.if_contains(key);
  return found == nullptr || !found->is_string() ? "" : std::string(found->as_string());
}

void merge_patch(object& into, const object& patch, bool strategic);

// In a strategic merge patch, these lists are merged by a key of their entries.
std::string_view merge_key(std::string_view list) {
  return list == "conditions" ? "type" : list == "webhooks" ? "name" : "";
}

void merge_list(value& into, const boost::json::array& patch, std::string_view key) {
  if (!into.is_array()) {
    into = boost::json::array();
  }
  boost::json::array& have = into.as_array();
  for (const value& entry : patch) {
    const auto same = std::ranges::find_if(
        have, [&](const value& one) { return one.as_object().at(key) == entry.as_object().at(key); });
    if (same == have.end()) {
      have.push_back(entry);
    } else {
      merge_patch(same->as_object(), entry.as_object(), true);
    }
  }
}

// A JSON merge patch (RFC 7396), or the part of a strategic merge patch that Tessera uses.
void merge_patch(object& into, const object& patch, bool strategic) {
  for (const auto& [name, change] : patch) {
    if (change.is_null()) {
      into.erase(name);
    } else if (change.is_object()) {
      merge_patch(object_in(into, name), change.as_object(), strategic);
    } else if (strategic && !merge_key(name).empty()) {
      merge_list(into[name], change.as_array(), merge_key(name));
    } else {
      into[name] = change;
    }
  }
}

std::string error_event(int code, const std::string& reason, const std::string& message) {
  return fmt::format("{{\"type\":\"ERROR\",\"object\":{}}}\n", status_json(code, reason, message));
}

}  // namespace

std::string status_json(int code, const std::string& reason, const std::string& message) {
  return fmt::format(
      R"({{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{}","reason":"{}","code":{}}})",
      message, reason, code);
}

FakeApiServer::FakeApiServer(http::EventLoop& loop) : FakeApiServer(nullptr, &loop) {}

FakeApiServer::FakeApiServer() : FakeApiServer(std::make_unique<http::EventLoop>(), nullptr) {
  thread_ = std::thread([this] { loop_.run(); });
}

FakeApiServer::FakeApiServer(std::unique_ptr<http::EventLoop> own, http::EventLoop* loop)
    : own_loop_(std::move(own)), loop_(own_loop_ != nullptr ? *own_loop_ : *loop) {
  auto server = http::Server::create(
      loop_, {}, [this](http::Request& request, http::Reply reply) { handle(request, std::move(reply)); });
  if (!server) {
    throw std::runtime_error(server.error().text());
  }
  server_.emplace(*std::move(server));
}

FakeApiServer::~FakeApiServer() {
  loop_.call([this] {
    held_.clear();
    watches_.clear();
    server_.reset();
  });
  if (thread_.joinable()) {
    loop_.stop();
    thread_.join();
  }
}

std::string FakeApiServer::url() const {
  return fmt::format("http://127.0.0.1:{}", server_->port());
}

ClusterAccess FakeApiServer::access() const {
  ClusterAccess access;
  access.cluster.server = url();
  return access;
}

bool FakeApiServer::Place::covers(const Place& other) const {
  return resource == other.resource && (namespace_name.empty() || namespace_name == other.namespace_name) &&
         (name.empty() || name == other.name);
}

std::optional<FakeApiServer::Place> FakeApiServer::parse_path(std::string_view path) {
  std::vector<std::string_view> parts = split(path.substr(1), '/');
  const std::size_t prefix = parts[0] == "api" ? 2 : 3;  // "api/v1" or "apis/GROUP/v1"
  if ((parts[0] != "api" && parts[0] != "apis") || parts.size() <= prefix) {
    return std::nullopt;
  }
  parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(prefix));
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

// ---- Objects

const object* FakeApiServer::find(const Place& place) const {
  const auto resource = objects_.find(place.resource);
  if (resource == objects_.end()) {
    return nullptr;
  }
  const auto found = resource->second.find({place.namespace_name, place.name});
  return found == resource->second.end() ? nullptr : &found->second;
}

void FakeApiServer::emit(const char* type, const Place& place, const object& object) {
  if (hidden_) {
    return;
  }
  const std::string line =
      fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, boost::json::serialize(object));
  history_[version_] = {.place = place, .line = line};
  std::erase_if(watches_, [](const Watch& watch) { return !watch.stream.open(); });
  for (Watch& watch : watches_) {
    if (!watch.dead && version_ >= watch.from && watch.place.covers(place)) {
      watch.stream.write(line);
    }
  }
}

const object& FakeApiServer::store(const Place& place, object stored) {
  const object* existing = find(place);
  object& metadata = object_in(stored, "metadata");
  metadata["name"] = place.name;
  if (!place.namespace_name.empty()) {
    metadata["namespace"] = place.namespace_name;
  }
  if (existing != nullptr && !metadata.contains("uid")) {
    metadata["uid"] = existing->at("metadata").at("uid");
  } else if (existing == nullptr) {
    const int creation =
        ++creations_[fmt::format("{}/{}/{}", place.resource, place.namespace_name, place.name)];
    if (!metadata.contains("uid")) {
      metadata["uid"] = creation == 1 ? "uid-" + place.name : fmt::format("uid-{}-{}", place.name, creation);
    }
  }
  metadata["resourceVersion"] = std::to_string(++version_);
  const auto [entry, is_new] =
      objects_[place.resource].insert_or_assign(Key{place.namespace_name, place.name}, std::move(stored));
  emit(is_new ? "ADDED" : "MODIFIED", place, entry->second);
  return entry->second;
}

void FakeApiServer::erase(const Place& place) {
  Objects& all = objects_[place.resource];
  const auto found = all.find({place.namespace_name, place.name});
  if (found == all.end()) {
    return;
  }
  object deleted = std::move(found->second);
  all.erase(found);
  object_in(deleted, "metadata")["resourceVersion"] = std::to_string(++version_);
  emit("DELETED", place, deleted);
}

void FakeApiServer::put(const std::string& path, object object) {
  loop_.call([&] { store(parse_path(path).value(), std::move(object)); });
}

void FakeApiServer::change(const std::string& path, const object& merge_patch) {
  loop_.call([&] {
    const Place place = parse_path(path).value();
    if (find(place) == nullptr || patch(place, merge_patch, /*strategic=*/false).status != 200) {
      throw std::invalid_argument("cannot patch " + path);
    }
  });
}

void FakeApiServer::remove(const std::string& path) {
  loop_.call([&] { erase(parse_path(path).value()); });
}

value FakeApiServer::get(const std::string& path) {
  value found;
  loop_.call([&] {
    if (const object* one = find(parse_path(path).value())) {
      found = *one;
    }
  });
  return found;
}

std::vector<object> FakeApiServer::all(const std::string& resource) {
  std::vector<object> found;
  loop_.call([&] {
    for (const auto& [key, one] : objects_[resource]) {
      found.push_back(one);
    }
  });
  return found;
}

FakeApiServer::Place FakeApiServer::thing_place(const std::string& name) {
  return {.resource = "things", .namespace_name = "ns", .name = name, .subresource = ""};
}

void FakeApiServer::set_thing(const std::string& name, const std::string& value) {
  loop_.call([&] {
    const Place place = thing_place(name);
    object metadata{{"name", name}, {"namespace", "ns"}};
    if (find(place) == nullptr) {
      metadata["uid"] = fmt::format("00000000-0000-4000-8000-{:012x}", ++thing_uids_);
    }
    metadata["managedFields"] = boost::json::array{object{{"manager", "x"}}};
    store(place, {{"kind", "Thing"},
                  {"apiVersion", "v1"},
                  {"metadata", std::move(metadata)},
                  {"spec", object{{"value", value}}}});
  });
}

void FakeApiServer::remove_thing(const std::string& name) {
  loop_.call([&] { erase(thing_place(name)); });
}

std::map<std::string, FakeApiServer::Thing> FakeApiServer::things() {
  std::map<std::string, Thing> found;
  loop_.call([&] {
    for (const auto& [key, thing] : objects_["things"]) {
      const object& metadata = thing.at("metadata").as_object();
      found[key.second] = {
          .uid = text_in(metadata, "uid"),
          .version = static_cast<std::uint64_t>(parse_int(text_in(metadata, "resourceVersion")).value()),
          .value = text_in(thing.at("spec").as_object(), "value")};
    }
  });
  return found;
}

// ---- Faults

void FakeApiServer::hold_bindings() {
  loop_.call([this] { holding_ = true; });
}

void FakeApiServer::release_bindings() {
  loop_.call([this] {
    holding_ = false;
    for (const auto& process_binding : std::exchange(held_, {})) {
      process_binding();
    }
  });
}

std::size_t FakeApiServer::held_bindings() {
  std::size_t count = 0;
  loop_.call([&] { count = held_.size(); });
  return count;
}

std::chrono::milliseconds FakeApiServer::timeout_of_last_binding() {
  std::chrono::milliseconds timeout{0};
  loop_.call([&] { timeout = binding_timeout_; });
  return timeout;
}

void FakeApiServer::compact() {
  loop_.call([this] { oldest_ = version_; });
}

void FakeApiServer::restore_version(std::uint64_t version) {
  loop_.call([&] {
    version_ = version;
    oldest_ = 0;
    history_.clear();
    lists_.clear();
  });
}

std::size_t FakeApiServer::watches() {
  std::size_t open = 0;
  loop_.call([&] {
    std::erase_if(watches_, [](const Watch& watch) { return !watch.stream.open(); });
    open = watches_.size();
  });
  return open;
}

void FakeApiServer::bookmark() {
  loop_.call([this] {
    const std::string line = fmt::format(
        R"({{"type":"BOOKMARK","object":{{"kind":"Thing","apiVersion":"v1","metadata":{{"resourceVersion":"{}"}}}}}})"
        "\n",
        version_);
    for (Watch& watch : watches_) {
      if (!watch.dead && version_ >= watch.from) {
        watch.stream.write(line);
      }
    }
  });
}

void FakeApiServer::cut_watches() {
  loop_.call([this] { watches_.clear(); });
}

void FakeApiServer::end_watches() {
  loop_.call([this] {
    for (Watch& watch : watches_) {
      watch.stream.end();
    }
    watches_.clear();
  });
}

void FakeApiServer::write_raw(const std::string& bytes) {
  loop_.call([&] {
    for (Watch& watch : watches_) {
      if (!watch.dead) {
        watch.stream.write(bytes);
      }
    }
  });
}

void FakeApiServer::error_line(int code, const std::string& reason) {
  write_raw(error_event(code, reason, "injected by the test"));
}

void FakeApiServer::repeat_lines(std::size_t count) {
  loop_.call([&] {
    auto change = history_.end();
    for (; count > 0 && change != history_.begin(); --count) {
      --change;
    }
    for (; change != history_.end(); ++change) {
      write_raw(change->second.line);
    }
  });
}

void FakeApiServer::stall() {
  loop_.call([this] {
    for (Watch& watch : watches_) {
      watch.dead = true;
    }
  });
}

void FakeApiServer::hide(bool on) {
  loop_.call([&] { hidden_ = on; });
}

// ---- Requests

void FakeApiServer::handle(http::Request& request, http::Reply reply) {
  const http::Headers& headers = request.headers();
  Seen current{.method = std::string(request.method()),
               .target = std::string(request.target()),
               .user_agent = std::string(headers.find("User-Agent")),
               .authorization = std::string(headers.find("Authorization")),
               .content_type = std::string(headers.find("Content-Type")),
               .body = std::string(request.body().text()),
               .impersonation = {}};
  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (headers.name(i).starts_with("Impersonate-")) {
      current.impersonation.emplace_back(headers.name(i), headers.value(i));
    }
  }
  seen.push_back(current);
  if (!token.empty() && current.authorization != "Bearer " + token) {
    reply.send(failure(401, "Unauthorized", "Unauthorized"));
    return;
  }
  if (intercept) {
    if (auto response = intercept(current)) {
      reply.send(std::move(*response));
      return;
    }
  }
  std::optional<Place> place = parse_path(request.path());
  if (!place) {
    reply.send(failure(404, "NotFound", "the server could not find the requested resource"));
    return;
  }
  const Query query = parse_query(request.query());
  if (current.method == "GET" && place->name.empty()) {
    constexpr std::string_view kByName = "metadata.name=";
    if (const auto selector = query.find("fieldSelector");
        selector != query.end() && selector->second.starts_with(kByName)) {
      place->name = selector->second.substr(kByName.size());
    }
    query.contains("watch") ? watch(*place, query, std::move(reply)) : list(*place, query, std::move(reply));
    return;
  }
  if (place->subresource == "binding") {
    const auto timeout = query.find("timeout");  // "500ms"
    binding_timeout_ = std::chrono::milliseconds(timeout == query.end() ? 0 : std::stoll(timeout->second));
    if (holding_) {
      held_.emplace_back([this, current, place, to = std::make_shared<http::Reply>(std::move(reply))] {
        to->send(process(current, *place));
      });
      return;
    }
  }
  reply.send(process(current, *place));
}

void FakeApiServer::list(const Place& place, const Query& query, http::Reply reply) {
  std::uint64_t version = version_;
  std::size_t from = 0;
  const Objects* source = &objects_[place.resource];
  if (const auto continue_token = query.find("continue"); continue_token != query.end()) {
    const auto parts = split(continue_token->second, '.');
    version = static_cast<std::uint64_t>(parse_int(parts.at(0)).value());
    from = static_cast<std::size_t>(parse_int(parts.at(1)).value());
    if (version < oldest_) {
      reply.send(failure(410, "Expired", "The provided continue parameter is too old"));
      return;
    }
    if (const auto first_page = lists_.find({place.resource, version}); first_page != lists_.end()) {
      source = &first_page->second;
    }
  }
  const std::uint64_t limit = number_in(query, "limit", std::numeric_limits<std::uint32_t>::max());
  boost::json::array items;
  std::size_t at = 0;
  for (const auto& [key, one] : *source) {
    if (!place.covers({place.resource, key.first, key.second, ""})) {
      continue;
    }
    if (at >= from && at < from + limit) {
      object item = one;
      item.stable_erase("kind");  // items of a list have neither
      item.stable_erase("apiVersion");
      items.push_back(std::move(item));
    }
    ++at;
  }
  object metadata{{"resourceVersion", std::to_string(version)}};
  if (from + limit < at) {
    if (from == 0) {
      lists_[{place.resource, version}] = *source;
    }
    metadata["continue"] = fmt::format("{}.{}", version, from + limit);
  }
  reply.send(success(200, object{{"kind", "List"},
                                 {"apiVersion", "v1"},
                                 {"metadata", std::move(metadata)},
                                 {"items", std::move(items)}}));
}

void FakeApiServer::watch(const Place& place, const Query& query, http::Reply reply) {
  const std::uint64_t from = number_in(query, "resourceVersion", 0);
  Watch opened{.stream = reply.stream({}), .place = place, .from = from, .dead = false};
  if (from < oldest_) {
    opened.stream.write(error_event(410, "Expired", "too old resource version"));
    opened.stream.end();
    return;
  }
  for (auto change = history_.upper_bound(from); change != history_.end(); ++change) {
    if (place.covers(change->second.place)) {
      opened.stream.write(change->second.line);
    }
  }
  watches_.push_back(std::move(opened));
}

http::Response FakeApiServer::process(const Seen& request, const Place& place) {
  const value body = request.body.empty() ? value() : boost::json::parse(request.body);
  if (request.method == "POST" && place.name.empty()) {
    return create(place, body);
  }
  if (place.subresource == "eviction") {
    return success(201, body);  // accepted; the pod still has its grace period
  }
  const object* found = find(place);
  if (request.content_type == "application/apply-patch+yaml") {
    return apply(place, body);
  }
  if (found == nullptr) {
    return failure(404, "NotFound", fmt::format("{} {} not found", place.resource, place.name));
  }
  if (request.method == "GET") {
    return success(200, *found);
  }
  if (request.method == "DELETE") {
    http::Response response = success(200, *found);
    erase(place);
    return response;
  }
  const std::string foreign =
      foreign_change({.user_agent = request.user_agent, .resource = place.resource, .body = body});
  if (!foreign.empty()) {
    ADD_FAILURE() << request.user_agent << " writes " << foreign << " (" << place.name
                  << "), which is not in deploy/helm/tessera/files/keys.json";
    return failure(403, "Forbidden", "denied request: " + foreign);
  }
  if (place.subresource == "binding") {
    return bind(place, body);
  }
  return patch(place, body, request.content_type == "application/strategic-merge-patch+json");
}

http::Response FakeApiServer::create(Place place, const value& body) {
  place.name = body.at("metadata").at("name").as_string();
  if (find(place) != nullptr) {
    return failure(409, "AlreadyExists", fmt::format("{} {} already exists", place.resource, place.name));
  }
  return success(201, store(place, body.as_object()));
}

// Server-side apply. If the object exists, its values belong to another manager: they may not change.
http::Response FakeApiServer::apply(const Place& place, const value& wanted) {
  const object* found = find(place);
  if (found == nullptr) {
    return success(201, store(place, wanted.as_object()));
  }
  object applied = *found;
  merge_patch(applied, wanted.as_object(), /*strategic=*/false);
  return applied == *found ? success(200, *found) : failure(409, "Conflict", "Apply failed with 1 conflict");
}

http::Response FakeApiServer::patch(const Place& place, const value& changes, bool strategic) {
  object patched = *find(place);
  if (const value* metadata = changes.as_object().if_contains("metadata")) {
    const std::string expected = text_in(metadata->as_object(), "resourceVersion");
    if (!expected.empty() && expected != text_in(patched.at("metadata").as_object(), "resourceVersion")) {
      return failure(409, "Conflict", "the object has been modified");
    }
  }
  merge_patch(patched, changes.as_object(), strategic);
  return success(200, store(place, std::move(patched)));
}

http::Response FakeApiServer::bind(const Place& place, const value& binding) {
  object bound = *find(place);
  object& spec = object_in(bound, "spec");
  if (!text_in(spec, "nodeName").empty()) {
    return failure(409, "Conflict", "the pod is already assigned to a node");
  }
  spec["nodeName"] = binding.at("target").at("name");
  object& annotations = object_in(object_in(bound, "metadata"), "annotations");
  if (const value* added = binding.at("metadata").as_object().if_contains("annotations")) {
    merge_patch(annotations, added->as_object(), /*strategic=*/false);
  }
  store(place, std::move(bound));
  return success(201, object{{"kind", "Status"}, {"status", "Success"}});
}

}  // namespace tessera::kube
