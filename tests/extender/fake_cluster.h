// tests/extender/fake_cluster.h
//
// As much of an API server as a whole extender meets: objects of any kind that can be listed, watched,
// created, patched and bound, on a thread of its own.
//
//   FakeCluster cluster;
//   cluster.put("/api/v1/nodes/gpu-a", node);
//   ... Extender::create(loop, config, cluster.access(), ...) ...
//   cluster.get("/api/v1/namespaces/ml/pods/p").at("spec").at("nodeName")
//
// Any thread may call it.
#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "http/event_loop.h"
#include "http/server.h"
#include "kube/kubeconfig.h"

namespace tessera::extender {

class FakeCluster {
 public:
  FakeCluster();
  FakeCluster(const FakeCluster&) = delete;
  FakeCluster& operator=(const FakeCluster&) = delete;
  ~FakeCluster();

  [[nodiscard]] kube::ClusterAccess access() const;

  // Makes or replaces an object; it gets a UID, "uid-" and its name, and a version.
  void put(const std::string& path, boost::json::object object);
  void remove(const std::string& path);
  // Null when there is none.
  [[nodiscard]] boost::json::value get(const std::string& path);
  // All of a resource, "events".
  [[nodiscard]] std::vector<boost::json::object> all(const std::string& resource);

  // Bindings are not answered, and not carried out, until they are let go.
  void hold_bindings();
  void let_bindings_go();
  [[nodiscard]] std::size_t held_bindings();
  // How long the last one might have taken, as it said itself.
  [[nodiscard]] std::chrono::milliseconds time_of_last_binding();
  void cut_watches();

 private:
  // "/api/v1/namespaces/ml/pods/p/binding", taken apart.
  struct Place {
    std::string resource;
    std::string namespace_name;
    std::string name;
    std::string subresource;
  };
  struct Watch {
    http::ReplyStream stream;
    Place of;
  };
  using Key = std::pair<std::string, std::string>;  // namespace and name

  static Place place_of(std::string_view path);
  static bool is_of(const Place& place, const Key& key);
  void handle(http::Request& request, http::Reply reply);
  void list(const Place& place, http::Reply reply);
  void watch(const Place& place, std::uint64_t from, http::Reply reply);
  [[nodiscard]] http::Response change(std::string_view method, const Place& place, std::string_view body);
  [[nodiscard]] http::Response bind(const Place& place, const boost::json::value& binding);
  // Stores and tells; the object as stored.
  const boost::json::object& store(const Place& place, boost::json::object object);
  void erase(const Place& place);
  void tell(const char* type, const Place& place, const boost::json::object& object);

  http::EventLoop loop_;
  std::map<std::string, std::map<Key, boost::json::object>> objects_;  // by resource
  std::map<std::string, std::vector<std::tuple<std::uint64_t, Key, std::string>>> history_;
  std::uint64_t version_ = 1;
  std::list<Watch> watches_;
  bool holding_ = false;
  std::chrono::milliseconds binding_time_{0};
  std::vector<std::function<void()>> held_;
  std::optional<http::Server> server_;
  std::thread thread_;
};

}  // namespace tessera::extender
