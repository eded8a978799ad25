// tests/kube/fake_api_server.h
//
// An API server for tests. It stores objects of any resource and supports list, watch, get, create,
// patch, apply, delete, bind and evict. Tests can inject the faults of real servers and networks. A test
// fails if tessera-agent or tessera-extender writes a key that the chart's policies do not allow
// (written_keys.h).
//
//   FakeApiServer server(loop);  // on the event loop of the test, or
//   FakeApiServer server;        // on its own thread
//   server.put("/api/v1/nodes/gpu-a", {{"spec", {{"unschedulable", true}}}});
//   ... Client::create(loop, server.access(), {}) ...
//   server.get("/api/v1/namespaces/ml/pods/p").at("spec").at("nodeName")
//
// All functions may be called on any thread. The public members may be used only on the thread of
// the event loop, or while it does not run.
#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "http/event_loop.h"
#include "http/server.h"
#include "kube/kubeconfig.h"

namespace tessera::kube {

class FakeApiServer {
 public:
  explicit FakeApiServer(http::EventLoop& loop);
  FakeApiServer();
  FakeApiServer(const FakeApiServer&) = delete;
  FakeApiServer& operator=(const FakeApiServer&) = delete;
  ~FakeApiServer();

  [[nodiscard]] std::string url() const;
  [[nodiscard]] ClusterAccess access() const;

  // ---- Objects

  // Creates or replaces an object. Sets its name, namespace and resourceVersion. An object without
  // a UID gets "uid-NAME", or "uid-NAME-2" and so on if it was deleted and is created again.
  void put(const std::string& path, boost::json::object object);
  // Applies a JSON merge patch to an existing object, as another client would.
  void change(const std::string& path, const boost::json::object& merge_patch);
  void remove(const std::string& path);
  // Returns null if there is no such object.
  [[nodiscard]] boost::json::value get(const std::string& path);
  // Returns all objects of a resource ("events"), in all namespaces.
  [[nodiscard]] std::vector<boost::json::object> all(const std::string& resource);

  // A collection at /api/v1/things for tests of list and watch: objects with just a value. A thing
  // that is created again has a new UID.
  struct Thing {
    std::string uid;
    std::uint64_t version;
    std::string value;
    friend bool operator==(const Thing&, const Thing&) = default;
  };
  void set_thing(const std::string& name, const std::string& value);
  void remove_thing(const std::string& name);
  [[nodiscard]] std::map<std::string, Thing> things();

  // ---- Requests

  struct Seen {
    std::string method;
    std::string target;
    std::string user_agent;
    std::string authorization;
    std::string content_type;
    std::string body;
    std::vector<std::pair<std::string, std::string>> impersonation;  // the Impersonate-* headers
  };
  // All requests so far.
  std::vector<Seen> seen;
  // Called for each request. If it returns a response, the request is not processed.
  std::function<std::optional<http::Response>(const Seen&)> intercept;
  // If set, requests with another token get 401.
  std::string token;

  // While held, bindings are not processed and get no response.
  void hold_bindings();
  void release_bindings();
  [[nodiscard]] std::size_t held_bindings();
  // Returns the "timeout" parameter of the last binding.
  [[nodiscard]] std::chrono::milliseconds timeout_of_last_binding();

  // ---- Faults

  // Compacts the history: watches and continue tokens from earlier versions get 410.
  void compact();
  // Simulates a restored backup: keeps the objects and continues from an earlier version.
  void restore_version(std::uint64_t version);

  // Returns the number of open watches.
  [[nodiscard]] std::size_t watches();
  void bookmark();
  void cut_watches();                        // breaks their connections
  void end_watches();                        // ends them cleanly, as after timeoutSeconds
  void write_raw(const std::string& bytes);  // writes to every watch
  void error_line(int code, const std::string& reason);
  // Repeats the last `count` events.
  void repeat_lines(std::size_t count);
  // Stops sending data on the open watches, as if their connections were dead.
  void stall();
  // While on, watches do not see changes, as if the objects did not match the selector.
  void hide(bool on);

 private:
  // The parts of "/api/v1/namespaces/ml/pods/p/binding".
  struct Place {
    std::string resource;
    std::string namespace_name;
    std::string name;
    std::string subresource;

    // Whether an object at `other` belongs to this place; an empty namespace or name matches any.
    [[nodiscard]] bool covers(const Place& other) const;
  };
  using Key = std::pair<std::string, std::string>;  // namespace and name
  using Objects = std::map<Key, boost::json::object>;
  using Query = std::map<std::string, std::string>;
  struct Watch {
    http::ReplyStream stream;
    Place place;
    std::uint64_t from = 0;
    bool dead = false;
  };
  struct Change {
    Place place;
    std::string line;
  };

  FakeApiServer(std::unique_ptr<http::EventLoop> own, http::EventLoop* loop);
  static std::optional<Place> parse_path(std::string_view path);
  static Place thing_place(const std::string& name);

  void handle(http::Request& request, http::Reply reply);
  void list(const Place& place, const Query& query, http::Reply reply);
  void watch(const Place& place, const Query& query, http::Reply reply);
  [[nodiscard]] http::Response process(const Seen& request, const Place& place);
  [[nodiscard]] http::Response create(Place place, const boost::json::value& body);
  [[nodiscard]] http::Response bind(const Place& place, const boost::json::value& binding);
  [[nodiscard]] http::Response apply(const Place& place, const boost::json::value& wanted);
  [[nodiscard]] http::Response patch(const Place& place, const boost::json::value& changes, bool strategic);

  const boost::json::object& store(const Place& place, boost::json::object object);
  void erase(const Place& place);
  [[nodiscard]] const boost::json::object* find(const Place& place) const;
  void emit(const char* type, const Place& place, const boost::json::object& object);

  const std::unique_ptr<http::EventLoop> own_loop_;
  http::EventLoop& loop_;
  std::map<std::string, Objects> objects_;                          // by resource
  std::map<std::pair<std::string, std::uint64_t>, Objects> lists_;  // paged lists by resource and version
  std::map<std::uint64_t, Change> history_;                         // by version
  std::map<std::string, int> creations_;                            // by resource, namespace and name
  std::uint64_t version_ = 1;
  std::uint64_t oldest_ = 0;
  std::uint64_t thing_uids_ = 0;
  bool hidden_ = false;
  std::list<Watch> watches_;
  bool holding_ = false;
  std::chrono::milliseconds binding_timeout_{0};
  std::vector<std::function<void()>> held_;
  std::optional<http::Server> server_;
  std::thread thread_;
};

// Returns {"kind":"Status",...} in the format of the API server.
std::string status_json(int code, const std::string& reason, const std::string& message);

}  // namespace tessera::kube
