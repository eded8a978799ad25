#include "fake_api_server.h"

#include <fmt/core.h>

#include "base/strings.h"

namespace tessera::kube {

namespace {

std::string decoded(std::string_view text) {
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
      values[std::string(part.substr(0, equals))] = decoded(part.substr(equals + 1));
    }
  }
  return values;
}

http::Response refusal(int code, const std::string& reason, const std::string& message) {
  return {.status = code, .body = status_json(code, reason, message)};
}

}  // namespace

std::string status_json(int code, const std::string& reason, const std::string& message) {
  return fmt::format(
      R"({{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{}","reason":"{}","code":{}}})",
      message, reason, code);
}

FakeApiServer::FakeApiServer(http::EventLoop& loop)
    : server_([&] {
        auto server = http::Server::create(loop, {}, [this](http::Request& request, http::Reply reply) {
          handle(request, std::move(reply));
        });
        if (!server) {
          throw std::runtime_error(server.error().text());
        }
        return std::move(*server);
      }()) {}

ClusterAccess FakeApiServer::access() const {
  ClusterAccess access;
  access.cluster.server = url();
  return access;
}

std::string FakeApiServer::url() const {
  return fmt::format("http://127.0.0.1:{}", server_.port());
}

std::string FakeApiServer::object_json(const std::string& name, const Thing& thing, bool with_kind) {
  return fmt::format(
      R"({{{}"metadata":{{"name":"{}","namespace":"ns","uid":"{}","resourceVersion":"{}","managedFields":[{{"manager":"x"}}]}},"spec":{{"value":"{}"}}}})",
      with_kind ? R"("kind":"Thing","apiVersion":"v1",)" : "", name, thing.uid, thing.version, thing.value);
}

void FakeApiServer::emit(const char* type, const std::string& name, const Thing& thing) {
  const std::string line =
      fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, object_json(name, thing, true));
  if (!hidden_) {
    history_[thing.version] = line;
    tell(thing.version, line);
  }
}

void FakeApiServer::set(const std::string& name, const std::string& value) {
  const auto [entry, added] = things_.try_emplace(name);
  Thing& thing = entry->second;
  if (added) {
    thing.uid = fmt::format("00000000-0000-4000-8000-{:012x}", ++uids_);
  }
  thing.version = ++version_;
  thing.value = value;
  emit(added ? "ADDED" : "MODIFIED", name, thing);
}

void FakeApiServer::remove(const std::string& name) {
  const auto found = things_.find(name);
  if (found == things_.end()) {
    return;
  }
  Thing gone = found->second;
  things_.erase(found);
  gone.version = ++version_;
  emit("DELETED", name, gone);
}

void FakeApiServer::restore_version(std::uint64_t version) {
  version_ = version;
  oldest_ = 0;
  history_.clear();
  snapshots_.clear();
}

std::size_t FakeApiServer::watches() {
  std::erase_if(watches_, [](const Watch& watch) { return !watch.stream.open(); });
  return watches_.size();
}

void FakeApiServer::write_raw(const std::string& bytes) {
  for (Watch& watch : watches_) {
    if (!watch.dead) {
      watch.stream.write(bytes);
    }
  }
}

void FakeApiServer::tell(std::uint64_t version, const std::string& line) {
  for (Watch& watch : watches_) {
    if (!watch.dead && version >= watch.from) {
      watch.stream.write(line);
    }
  }
}

void FakeApiServer::bookmark() {
  tell(
      version_,
      fmt::format(
          R"({{"type":"BOOKMARK","object":{{"kind":"Thing","apiVersion":"v1","metadata":{{"resourceVersion":"{}"}}}}}})"
          "\n",
          version_));
}

void FakeApiServer::stall() {
  for (Watch& watch : watches_) {
    watch.dead = true;
  }
}

void FakeApiServer::cut_watches() {
  watches_.clear();
}

void FakeApiServer::end_watches() {
  for (Watch& watch : watches_) {
    watch.stream.end();
  }
  watches_.clear();
}

void FakeApiServer::error_line(int code, const std::string& reason) {
  write_raw(
      fmt::format("{{\"type\":\"ERROR\",\"object\":{}}}\n", status_json(code, reason, "told by the test")));
}

void FakeApiServer::repeat_lines(std::size_t count) {
  auto line = history_.end();
  for (; count > 0 && line != history_.begin(); --count) {
    --line;
  }
  for (; line != history_.end(); ++line) {
    write_raw(line->second);
  }
}

void FakeApiServer::handle(http::Request& request, http::Reply reply) {
  seen.push_back({.method = std::string(request.method()),
                  .target = std::string(request.target()),
                  .user_agent = std::string(request.headers().find("User-Agent")),
                  .authorization = std::string(request.headers().find("Authorization")),
                  .content_type = std::string(request.headers().find("Content-Type")),
                  .body = std::string(request.body().text()),
                  .impersonation = {}});
  for (std::size_t i = 0; i < request.headers().size(); ++i) {
    if (request.headers().name(i).starts_with("Impersonate-")) {
      seen.back().impersonation.emplace_back(request.headers().name(i), request.headers().value(i));
    }
  }
  if (!token.empty() && seen.back().authorization != "Bearer " + token) {
    reply.send(refusal(401, "Unauthorized", "Unauthorized"));
    return;
  }
  if (intercept) {
    if (auto answer = intercept(seen.back())) {
      reply.send(std::move(*answer));
      return;
    }
  }
  if (request.path() != "/api/v1/things" || request.method() != "GET") {
    reply.send(refusal(404, "NotFound", "nothing here"));
    return;
  }
  const auto query = parse_query(request.query());
  query.contains("watch") ? watch(query, std::move(reply)) : list(query, std::move(reply));
}

void FakeApiServer::list(const std::map<std::string, std::string>& query, http::Reply reply) {
  std::uint64_t version = version_;
  std::size_t from = 0;
  if (const auto token_text = query.find("continue"); token_text != query.end()) {
    const auto parts = split(token_text->second, '.');
    version = static_cast<std::uint64_t>(*parse_int(parts.at(0)));
    from = static_cast<std::size_t>(*parse_int(parts.at(1)));
    if (version < oldest_) {
      reply.send(refusal(410, "Expired", "The provided continue parameter is too old"));
      return;
    }
  } else {
    snapshots_[version] = things_;
  }
  const auto& all = snapshots_[version];
  const auto limit = static_cast<std::size_t>(*parse_int(query.at("limit")));
  std::string items;
  std::size_t at = 0;
  for (const auto& [name, thing] : all) {
    if (at >= from && at < from + limit) {
      items += (items.empty() ? "" : ",") + object_json(name, thing, false);
    }
    ++at;
  }
  const std::string next =
      from + limit < all.size() ? fmt::format(R"(,"continue":"{}.{}")", version, from + limit) : "";
  reply.send(
      {.body = fmt::format(
           R"({{"kind":"ThingList","apiVersion":"v1","metadata":{{"resourceVersion":"{}"{}}},"items":[{}]}})",
           version, next, items)});
}

void FakeApiServer::watch(const std::map<std::string, std::string>& query, http::Reply reply) {
  const auto from = static_cast<std::uint64_t>(*parse_int(query.at("resourceVersion")));
  Watch opened{.stream = reply.stream({}), .from = from, .dead = false};
  if (from < oldest_) {
    opened.stream.write(fmt::format("{{\"type\":\"ERROR\",\"object\":{}}}\n",
                                    status_json(410, "Expired", "too old resource version")));
    opened.stream.end();
    return;
  }
  for (auto line = history_.upper_bound(from); line != history_.end(); ++line) {
    opened.stream.write(line->second);
  }
  watches_.push_back(std::move(opened));
}

}  // namespace tessera::kube
