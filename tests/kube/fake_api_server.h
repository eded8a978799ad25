// tests/kube/fake_api_server.h
//
// As much of an API server as list and watch need, with every fault a real one or a network can have, on
// command. Runs on the test's own loop.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "http/event_loop.h"
#include "http/server.h"
#include "kube/kubeconfig.h"

namespace tessera::kube {

class FakeApiServer {
 public:
  explicit FakeApiServer(http::EventLoop& loop);

  [[nodiscard]] std::string url() const;
  // What a client needs to speak with it.
  [[nodiscard]] ClusterAccess access() const;

  // The one collection there is, at /api/v1/things: objects with a name, a UID, a version and a value.
  void set(const std::string& name, const std::string& value);
  void remove(const std::string& name);
  struct Thing {
    std::string uid;
    std::uint64_t version;
    std::string value;
    friend bool operator==(const Thing&, const Thing&) = default;
  };
  [[nodiscard]] const std::map<std::string, Thing>& things() const { return things_; }
  [[nodiscard]] std::uint64_t version() const { return version_; }

  // Forgets all history: watches and continue tokens from before are 410 from now on.
  void compact() { oldest_ = version_; }
  // The state of a backup: the same objects, versions that have been counted before.
  void restore_version(std::uint64_t version);

  // Watches that are open now.
  [[nodiscard]] std::size_t watches();
  void bookmark();
  void cut_watches();                        // the connection breaks
  void end_watches();                        // in order, as after timeoutSeconds
  void write_raw(const std::string& bytes);  // to every watch
  void error_line(int code, const std::string& reason);
  // Sends the last `count` lines once more.
  void repeat_lines(std::size_t count);
  // The watches of now get nothing any more: connections that died without a word.
  void stall();
  // Changes that watches do not see, as if they did not match the selector.
  void hide(bool on) { hidden_ = on; }

  // Answers requests in place of the server; nothing means: go on as usual.
  struct Seen {
    std::string method;
    std::string target;
    std::string user_agent;
    std::string authorization;
    std::string content_type;
    std::string body;
    std::vector<std::pair<std::string, std::string>> impersonation;  // the Impersonate-* fields
  };
  std::function<std::optional<http::Response>(const Seen&)> intercept;
  // Every request so far.
  std::vector<Seen> seen;
  // Only this token is accepted, if set.
  std::string token;

 private:
  struct Watch {
    http::ReplyStream stream;
    std::uint64_t from = 0;
    bool dead = false;
  };

  void handle(http::Request& request, http::Reply reply);
  void list(const std::map<std::string, std::string>& query, http::Reply reply);
  void watch(const std::map<std::string, std::string>& query, http::Reply reply);
  // To the watches that have not seen `version` yet.
  void tell(std::uint64_t version, const std::string& line);
  void emit(const char* type, const std::string& name, const Thing& thing);
  [[nodiscard]] static std::string object_json(const std::string& name, const Thing& thing, bool with_kind);

  std::map<std::string, Thing> things_;
  std::map<std::uint64_t, std::map<std::string, Thing>> snapshots_;
  std::map<std::uint64_t, std::string> history_;  // version -> line
  std::uint64_t version_ = 1;
  std::uint64_t oldest_ = 0;
  std::uint64_t uids_ = 0;
  bool hidden_ = false;
  std::list<Watch> watches_;
  http::Server server_;
};

// {"kind":"Status",...} as the API server writes it.
std::string status_json(int code, const std::string& reason, const std::string& message);

}  // namespace tessera::kube
