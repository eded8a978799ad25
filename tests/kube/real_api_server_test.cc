// Tests that need a real API server. See real_api_server.h for how it is started.
#include "real_api_server.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "../base/temporary_directory.h"
#include "base/file.h"
#include "kube/event_recorder.h"
#include "kube/leader_elector.h"

namespace tessera::kube {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST_F(Watching, SeesCreatedChangedAndDeletedObjects) {
  start();
  must(create_request(node_path(""), node_body("seen")));
  ASSERT_TRUE(wait([&] { return sink_.versions.contains("/seen"); }));
  must(patch_request(node_path("seen"), R"({"metadata":{"labels":{"a":"b"}}})"));
  must(delete_request(node_path("seen")));
  ASSERT_TRUE(wait([&] { return !sink_.versions.contains("/seen"); }));
  expect_equal("/api/v1/nodes", sink_);
}

TEST_F(Watching, ListsInPages) {
  for (int i = 0; i < 7; ++i) {
    must(create_request(node_path(""), node_body(fmt::format("page-{}", i))));
  }
  options_.page_items = 3;
  start();
  expect_equal("/api/v1/nodes", sink_);
  EXPECT_GE(reflector_->objects(), 7U);
  for (int i = 0; i < 7; ++i) {
    must(delete_request(node_path(fmt::format("page-{}", i))));
  }
}

TEST_F(Watching, RecoversWhenTheServerIsKilledAndRestarted) {
  must(create_request(node_path(""), node_body("stays")));
  start();
  cluster("kill kube-apiserver");
  ASSERT_TRUE(wait([&] { return reflector_->problem().has_value(); }));
  cluster("start kube-apiserver");
  Request late = create_request(node_path(""), node_body("after"));
  late.deadline = 60s;
  late.max_attempts = 1000;
  must(std::move(late));
  ASSERT_TRUE(wait([&] { return sink_.versions.contains("/after"); }));
  must(delete_request(node_path("after")));
  must(delete_request(node_path("stays")));
  expect_equal("/api/v1/nodes", sink_);
  EXPECT_EQ(reflector_->problem(), std::nullopt);
}

TEST_F(Watching, ForgetsObjectsThatWereDeletedBeforeACompaction) {
  must(create_request(node_path(""), node_body("vanishes")));
  start();
  ASSERT_TRUE(sink_.versions.contains("/vanishes"));
  // Our loop does not run, so the reflector sees none of this. The second restart empties the
  // server's watch cache.
  http::EventLoop other_loop;
  auto admin = Client::create(other_loop, access(), {});
  ASSERT_TRUE(admin);
  const auto patiently = [&](Request request) {
    request.deadline = 60s;
    request.max_attempts = 1000;
    const auto reply = admin->fetch(std::move(request));
    ASSERT_TRUE(reply) << reply.error().text();
  };
  cluster("restart kube-apiserver");
  patiently(delete_request(node_path("vanishes"), sink_.versions["/vanishes"].uid));
  patiently(create_request(node_path(""), node_body("appears")));
  compact();
  cluster("restart kube-apiserver");
  patiently(get_request("/readyz"));
  ASSERT_TRUE(wait([&] { return sink_.versions.contains("/appears"); }));
  EXPECT_FALSE(sink_.versions.contains("/vanishes"));
  EXPECT_GE(reflector_->counts().expired, 1U);
  EXPECT_EQ(sink_.syncs, 2);
  patiently(delete_request(node_path("appears")));
  expect_equal("/api/v1/nodes", sink_);
}

TEST_F(RealApiServerTest, BindsWithAnnotationsInOneWriteAndRejectsASecondBind) {
  must(create_request(node_path(""), node_body("bind-node")));
  must(create_request(pod_path("default", ""), pod_body("bind-me", "")));
  const auto read = [&] {
    return *parse_json(must(get_request(pod_path("default", "bind-me"))).body.text());
  };
  const std::string uid = *JsonReader(*JsonReader(read(), "").object("metadata")).text("uid");
  Binding binding{.namespace_name = "default",
                  .pod = "bind-me",
                  .uid = uid,
                  .node = "bind-node",
                  .annotations = {{"tessera.io/allocation", R"({"v":1})"}, {"ALIYUN_COM_GPU_MEM_IDX", "3"}}};
  must(*bind_request(binding));
  const auto bound = read();
  EXPECT_EQ(*JsonReader(*JsonReader(bound, "").object("spec")).text("nodeName"), "bind-node");
  const JsonReader metadata = *JsonReader(bound, "").object("metadata");
  EXPECT_EQ(*JsonReader(*metadata.object("annotations")).text("tessera.io/allocation"), R"({"v":1})");
  const auto again = client_.fetch(*bind_request(binding));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), ErrorCode::kConflict);
  EXPECT_THAT(again.error().text(), HasSubstr("already assigned to node"));
  binding.uid = "00000000-0000-4000-8000-000000000000";
  EXPECT_EQ(client_.fetch(*bind_request(binding)).error().code(), ErrorCode::kConflict);
  must(kill_pod_request("bind-me"));
  must(delete_request(node_path("bind-node")));
}

TEST_F(RealApiServerTest, EvictsUnlessAPodDisruptionBudgetForbidsIt) {
  must(create_request(node_path(""), node_body("evict-node")));
  std::string body = pod_body("evict-me", "evict-node");
  body.replace(body.find(R"("namespace":"default")"), 21,
               R"("namespace":"default","labels":{"app":"evict"})");
  must(create_request(pod_path("default", ""), body));
  must(patch_request(pod_path("default", "evict-me") + "/status",
                     R"({"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}})"));
  must(create_request("/apis/policy/v1/namespaces/default/poddisruptionbudgets",
                      R"({"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"keep"},)"
                      R"("spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"evict"}}}})"));
  // The budget takes effect after its controller has seen it. Until then, a dry run is allowed.
  const auto try_eviction = [&] {
    Request trial = evict_request("default", "evict-me", "");
    trial.query = "dryRun=All";
    return client_.fetch(std::move(trial));
  };
  Result<Reply> refused = try_eviction();
  for (int i = 0; i < 100 && refused; ++i) {
    loop_.run_until([] { return false; }, 100ms);
    refused = try_eviction();
  }
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("429"));
  must(delete_request("/apis/policy/v1/namespaces/default/poddisruptionbudgets/keep"));
  must(evict_request("default", "evict-me", ""));
  must(kill_pod_request("evict-me"));
  must(delete_request(node_path("evict-node")));
}

TEST_F(RealApiServerTest, ReadsARotatedTokenWhenTheOldOneIsRefused) {
  const TemporaryDirectory dir;
  ClusterAccess by_token = access("TESSERA_TEST_TOKEN_KUBECONFIG");
  const std::string good = by_token.user.token;
  by_token.user.token.clear();
  by_token.user.token_file = dir / "token";
  ASSERT_TRUE(write_file(dir / "token", good));
  Client rotating = client(by_token);
  EXPECT_TRUE(rotating.fetch(get_request("/api/v1/namespaces/default")));
  ASSERT_TRUE(write_file(dir / "token", "no-such-token"));
  Client wrong = client(by_token);
  const auto refused = wrong.fetch(get_request("/api/v1/namespaces/default"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kDenied);
  ASSERT_TRUE(write_file(dir / "token", good));
  EXPECT_TRUE(wrong.fetch(get_request("/api/v1/namespaces/default")))
      << "the new token must be used at once after 401";
}

TEST_F(RealApiServerTest, AnExpiredClientCertificateIsDenied) {
  const TemporaryDirectory dir;
  const std::string pki = variable("TESSERA_TEST_PKI");
  const std::string command = fmt::format(
      "cd {0} && openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k -out r "
      "-subj /O=system:masters/CN=late 2>/dev/null && openssl x509 -req -in r -CA {1}/ca.crt -CAkey "
      "{1}/ca.key -days -1 "
      "-set_serial 77 -out c 2>/dev/null",
      dir.path(), pki);
  ASSERT_EQ(std::system(command.c_str()), 0);
  ClusterAccess late = access();
  late.user.client_certificate = {.data = "", .file = dir / "c"};
  late.user.client_key = {.data = "", .file = dir / "k"};
  const auto reply = client(late).fetch(get_request("/api/v1/namespaces/default"));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), ErrorCode::kDenied) << reply.error().text();
}

TEST_F(RealApiServerTest, AServerOfAnotherAuthorityIsRejected) {
  const TemporaryDirectory dir;
  const std::string command = fmt::format(
      "cd {} && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -keyout k -out "
      "ca -subj /CN=other "
      "2>/dev/null",
      dir.path());
  ASSERT_EQ(std::system(command.c_str()), 0);
  ClusterAccess other = access();
  other.cluster.certificate_authority = {.data = "", .file = dir / "ca"};
  const auto reply = client(other).fetch(get_request("/version"));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), ErrorCode::kDenied);
  EXPECT_THAT(reply.error().text(), HasSubstr("certificate"));
  other.cluster.certificate_authority = {};
  EXPECT_EQ(client(other).fetch(get_request("/version")).error().code(), ErrorCode::kDenied)
      << "the system's root certificates must not accept it";
  other = access();
  other.cluster.tls_server_name = "another.server";
  EXPECT_EQ(client(other).fetch(get_request("/version")).error().code(), ErrorCode::kDenied);
}

TEST_F(RealApiServerTest, OneOfTwoCandidatesLeadsAndHandsOver) {
  const auto options = [](const char* name) {
    return LeaderElectorOptions{
        .namespace_name = "kube-system",
        .lease = "tessera-extender-test",
        .election = {.identity = name, .duration = 15s, .renew_deadline = 10s, .retry_period = 1s}};
  };
  auto a = LeaderElector::create(client_, options("a"), {});
  auto b = LeaderElector::create(client_, options("b"), {});
  ASSERT_TRUE(a && b);
  (*a)->start();
  ASSERT_TRUE(wait([&] { return (*a)->leading(); }));
  (*b)->start();
  ASSERT_TRUE(wait([&] { return (*b)->holder() == "a"; }));
  EXPECT_FALSE((*b)->leading());
  (*a)->hand_over([] {});
  EXPECT_FALSE((*a)->leading());
  ASSERT_TRUE(wait([&] { return (*b)->leading(); }, 10s))
      << "must be faster than the 15 s without a hand-over";
}

TEST_F(RealApiServerTest, EventsAreCountedInOneObject) {
  EventRecorder recorder(client_,
                         {.aggregator = {.component = "tessera-test", .instance = "i"}, .pace = 10ms});
  const EventNote note{
      .about = {.kind = "Node", .name = "some-node"}, .warning = true, .reason = "Tried", .message = "m"};
  EXPECT_TRUE(recorder.record(note));
  ASSERT_TRUE(wait([&] { return recorder.idle(); }));
  EXPECT_TRUE(recorder.record(note));
  ASSERT_TRUE(wait([&] { return recorder.idle(); }));
  EXPECT_EQ(recorder.counts().failed, 0U);
  Request request = get_request(event_path("default", ""));
  request.query = "fieldSelector=" + percent_encoded("involvedObject.name=some-node");
  const Reply reply = must(std::move(request));
  EXPECT_THAT(std::string(reply.body.text()), HasSubstr(R"("count":2)"));
}

}  // namespace
}  // namespace tessera::kube
