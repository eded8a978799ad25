// tests/kube/real_api_server.h
//
// Fixtures for a real API server that tests may kill, restart and compact. real-api-server.sh
// starts it and passes its location in the environment.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "base/json_reader.h"
#include "base/log.h"
#include "kube/access.h"
#include "kube/client.h"
#include "kube/object_json.h"
#include "kube/reflector.h"

namespace tessera::kube {

// Records the version of each object.
class VersionSink : public ObjectSink {
 public:
  struct Version {
    std::string uid;
    std::uint64_t number = 0;
    friend bool operator==(const Version&, const Version&) = default;
  };
  using Versions = std::map<std::string, Version>;

  Status decode(ObjectJson& object, ObjectMeta& meta) override {
    return object.judge(each_field(object.object(), [&](JsonKey key, JsonValue value) {
      return is(key, "metadata") ? read_meta(value, meta) : simdjson::SUCCESS;
    }));
  }
  void keep(const ObjectMeta& meta) override {
    Version& version = versions[meta.namespace_name + "/" + meta.name];
    EXPECT_TRUE(version.uid.empty() || version.uid == meta.uid)
        << meta.name << " was replaced without forget()";
    EXPECT_NE(version.number, meta.version) << meta.name << " was delivered twice";
    version = {.uid = meta.uid, .number = meta.version};
    ++kept;
  }
  void forget(const ObjectMeta& meta) override {
    EXPECT_EQ(versions.erase(meta.namespace_name + "/" + meta.name), 1U) << meta.name << " is unknown";
    ++forgotten;
  }
  void unreadable(const ObjectMeta& meta, const Error& error) override {
    ADD_FAILURE() << meta.name << error.text();
  }
  void synced() override { ++syncs; }

  Versions versions;
  int syncs = 0;
  int kept = 0;
  int forgotten = 0;
};

class RealApiServerTest : public ::testing::Test {
 protected:
  RealApiServerTest();

  static std::string variable(const char* name);
  static ClusterAccess access(const char* kubeconfig_variable = "TESSERA_TEST_KUBECONFIG");
  Client client(const ClusterAccess& to, ClientOptions options = {});

  // Runs a command such as "cluster kill kube-apiserver". The test fails if the command fails.
  static void cluster(const std::string& arguments);
  // Compacts etcd to the current revision.
  static void compact();

  // Lists the objects page by page, without a reflector.
  VersionSink::Versions fresh_list(const std::string& path);
  bool wait(const std::function<bool()>& condition, std::chrono::seconds at_most = std::chrono::seconds(60)) {
    return loop_.run_until(condition, at_most);
  }
  Reply must(Request request);

  http::EventLoop loop_;
  Client client_;
};

// A reflector of nodes, and its sink.
class Watching : public RealApiServerTest {
 protected:
  Watching();
  void start() { start(client_); }
  void start(Client& client);
  // Waits until the sink equals a fresh list.
  void expect_equal(const std::string& path, const VersionSink& sink);

  ReflectorOptions options_;
  VersionSink sink_;
  std::unique_ptr<Reflector> reflector_;
};

std::string node_body(const std::string& name);
// Returns a pod that is bound to `node`. If `node` is empty, it waits for a scheduler that does not
// exist.
std::string pod_body(const std::string& name, const std::string& node);
// Deletes a pod without a grace period, because there is no kubelet to confirm its end.
Request kill_pod_request(const std::string& name);

}  // namespace tessera::kube
