#include "real_api_server.h"

#include <fmt/core.h>

#include "kube/list_decoder.h"

namespace tessera::kube {

std::string RealApiServerTest::variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    throw std::runtime_error(std::string(name) +
                             " is not set: run this program with tests/kube/real-api-server.sh");
  }
  return value;
}

ClusterAccess RealApiServerTest::access(const char* kubeconfig_variable) {
  AccessOptions options;
  options.kubeconfig = variable(kubeconfig_variable);
  auto found = find_access(options);
  if (!found) {
    throw std::runtime_error(found.error().text());
  }
  return *found;
}

Client RealApiServerTest::client(const ClusterAccess& to, ClientOptions options) {
  auto made = Client::create(loop_, to, std::move(options));
  if (!made) {
    throw std::runtime_error(made.error().text());
  }
  return std::move(*made);
}

RealApiServerTest::RealApiServerTest() : client_(client(access())) {
  log::Options quiet;
  quiet.level = log::Level::kError;
  EXPECT_TRUE(log::configure(quiet));
}

void RealApiServerTest::cluster(const std::string& arguments) {
  const std::string command = variable("TESSERA_TEST_CLUSTER") + " " + arguments;
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

void RealApiServerTest::compact() {
  const std::string etcd = variable("TESSERA_TEST_INSIDE") + " curl -sf http://127.0.0.1:2379/v3/";
  // etcd returns the revision as a string and accepts it as a string.
  const std::string command = fmt::format(
      R"sh(r=$({0}kv/range -d '{{"key":"AA=="}}' | sed -n 's/.*"revision":"\([0-9]*\)".*/\1/p') && [ "$r" ] && )sh"
      R"sh({0}kv/compaction -d "{{\"revision\":\"$r\",\"physical\":true}}" >/dev/null)sh",
      etcd);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

Reply RealApiServerTest::must(Request request) {
  auto reply = client_.fetch(std::move(request));
  if (!reply) {
    throw std::runtime_error(reply.error().text());
  }
  return std::move(*reply);
}

VersionSink::Versions RealApiServerTest::fresh_list(const std::string& path) {
  VersionSink sink;
  ListDecoder decoder;
  std::string next;
  do {
    Request request = get_request(path);
    request.query = "limit=1000" + (next.empty() ? "" : "&continue=" + percent_encoded(next));
    Reply reply = must(std::move(request));
    auto page = decoder.decode(reply.body.view(), sink,
                               [&](const ObjectMeta& meta, const Status&) { sink.keep(meta); });
    if (!page) {
      throw std::runtime_error(page.error().text());
    }
    next = page->continue_token;
  } while (!next.empty());
  return sink.versions;
}

Watching::Watching() {
  options_.path = "/api/v1/nodes";
  options_.backoff = {.first = std::chrono::milliseconds(50), .cap = std::chrono::milliseconds(500)};
}

void Watching::start(Client& client) {
  reflector_ = std::make_unique<Reflector>(client, options_, sink_);
  reflector_->start();
  ASSERT_TRUE(wait([&] { return sink_.syncs > 0; }));
}

void Watching::expect_equal(const std::string& path, const VersionSink& sink) {
  for (int tries = 0; tries < 60; ++tries) {
    const auto listed = fresh_list(path);
    if (wait([&] { return sink.versions == listed; }, std::chrono::seconds(1))) {
      return;
    }
  }
  ADD_FAILURE() << "the sink never became equal to a list of " << path;
}

std::string node_body(const std::string& name) {
  return fmt::format(R"({{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{}"}}}})", name);
}

std::string pod_body(const std::string& name, const std::string& node) {
  return fmt::format(
      R"({{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{}","namespace":"default"}},"spec":{{)"
      R"("schedulerName":"no-scheduler","automountServiceAccountToken":false,"tolerations":[{{"operator":"Exists"}}],{})"
      R"("containers":[{{"name":"main","image":"none"}}]}}}})",
      name, node.empty() ? "" : fmt::format(R"("nodeName":"{}",)", node));
}

Request kill_pod_request(const std::string& name) {
  Request request = delete_request(pod_path("default", name));
  request.body = R"({"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0})";
  return request;
}

}  // namespace tessera::kube
