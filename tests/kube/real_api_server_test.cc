// What only a real API server can tell: see real_api_server.h for how it is started.
#include "real_api_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

#include "../base/temporary_directory.h"
#include "base/file.h"
#include "kube/event_recorder.h"
#include "kube/leader_elector.h"

namespace tessera::kube {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class Watching : public RealApiServerTest {
 protected:
  Watching() {
    options_.path = "/api/v1/nodes";
    options_.backoff = {.first = 50ms, .cap = 500ms};
  }
  void start() {
    reflector_ = std::make_unique<Reflector>(client_, options_, sink_);
    reflector_->start();
    ASSERT_TRUE(wait([&] { return sink_.syncs > 0; }));
  }
  // Waits until the sink shows exactly what a list shows that is made now.
  void expect_equal(const std::string& path) {
    for (int tries = 0; tries < 100; ++tries) {
      seen_ = fresh_list(path);
      if (wait([&] { return sink_.versions == seen_; }, 1s)) {
        return;
      }
    }
    EXPECT_EQ(sink_.versions.size(), seen_.size());
    ADD_FAILURE() << "the sink never came to show what " << path << " lists";
  }

  ReflectorOptions options_;
  VersionSink sink_;
  VersionSink::Versions seen_;
  std::unique_ptr<Reflector> reflector_;
};

TEST_F(Watching, SeesWhatIsMadeChangedAndDeleted) {
  start();
  must(create_request(node_path(""), node_body("seen")));
  ASSERT_TRUE(wait([&] { return sink_.versions.contains("/seen"); }));
  must(patch_request(node_path("seen"), R"({"metadata":{"labels":{"a":"b"}}})"));
  must(delete_request(node_path("seen")));
  ASSERT_TRUE(wait([&] { return !sink_.versions.contains("/seen"); }));
  expect_equal("/api/v1/nodes");
}

TEST_F(Watching, ListsInPagesAsTheServerCutsThem) {
  for (int i = 0; i < 7; ++i) {
    must(create_request(node_path(""), node_body(fmt::format("page-{}", i))));
  }
  options_.page_items = 3;
  start();
  expect_equal("/api/v1/nodes");
  EXPECT_GE(reflector_->objects(), 7U);
  for (int i = 0; i < 7; ++i) {
    must(delete_request(node_path(fmt::format("page-{}", i))));
  }
}

TEST_F(Watching, GoesOnWhenTheServerIsKilledAndComesBack) {
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
  expect_equal("/api/v1/nodes");
  EXPECT_EQ(reflector_->problem(), std::nullopt);
}

TEST_F(Watching, TellsWhatVanishedWhenItsVersionWasCompactedAway) {
  must(create_request(node_path(""), node_body("vanishes")));
  start();
  ASSERT_TRUE(sink_.versions.contains("/vanishes"));
  // Our loop rests, so the reflector sees nothing of this. The second restart empties the server's watch
  // cache.
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
  expect_equal("/api/v1/nodes");
}

TEST_F(RealApiServerTest, BindsWithAnnotationsInOneWriteAndRefusesASecond) {
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

TEST_F(RealApiServerTest, EvictsAndAPodDisruptionBudgetForbidsIt) {
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
  Result<Reply> refused = fail(ErrorCode::kInternal, "not asked");
  Request evict = evict_request("default", "evict-me", "");
  evict.query = "dryRun=All";
  // The budget counts once its controller has seen it.
  ASSERT_TRUE([&] {
    for (int i = 0; i < 100; ++i) {
      Request copy = evict_request("default", "evict-me", "");
      copy.query = evict.query;
      refused = client_.fetch(std::move(copy));
      if (!refused) {
        return true;
      }
      loop_.run_until([] { return false; }, 100ms);
    }
    return false;
  }());
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
      << "the fresh token is used at once after 401";
}

TEST_F(RealApiServerTest, AnExpiredClientCertificateIsTold) {
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

TEST_F(RealApiServerTest, AServerOfAnotherAuthorityIsNotSpokenTo) {
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
      << "the machine's own roots";
  other = access();
  other.cluster.tls_server_name = "somebody.else";
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
      << "sooner than the 15 s of a lease that is not handed over";
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

// Thousands of random changes of nodes and pods while connections are cut and the server is restarted: the
// sinks show what a fresh list shows, nothing is told twice (VersionSink checks), nothing is missing.
TEST_F(Watching, ShowsWhatAFreshListShowsAfterRandomChangesAndCuts) {
  ReflectorOptions pod_options = options_;
  pod_options.path = "/api/v1/pods";
  VersionSink pods;
  Reflector pod_reflector(client_, pod_options, pods);
  pod_reflector.start();
  options_.watch_for = 2s;
  start();
  std::mt19937_64 random(11);
  const int rounds = 6;
  std::uint64_t changes = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Call> calls;
    std::size_t answers = 0;
    for (int i = 0; i < 250; ++i) {
      const std::string node = fmt::format("n{}", random() % 20);
      const std::string pod = fmt::format("p{}", random() % 40);
      Request request;
      switch (random() % 6) {
        case 0:
          request = create_request(node_path(""), node_body(node));
          break;
        case 1:
          request = patch_request(
              node_path(node), fmt::format(R"({{"metadata":{{"labels":{{"x":"{}"}}}}}})", random() % 1000));
          break;
        case 2:
          request = random() % 3 == 0 ? delete_request(node_path(node)) : kill_pod_request(pod);
          break;
        case 3:
          request = create_request(pod_path("default", ""), pod_body(pod, "gone-node"));
          break;
        default:
          request =
              patch_request(pod_path("default", pod),
                            fmt::format(R"({{"metadata":{{"annotations":{{"x":"{}"}}}}}})", random() % 1000));
          break;
      }
      request.max_attempts = 1;
      calls.push_back(client_.send(std::move(request), [&](const Result<Reply>& reply) {
        ++answers;
        changes += reply ? 1 : 0;
      }));
      if (random() % 100 == 0) {
        wait([&] { return answers + 20 > calls.size(); }, 20s);
      }
    }
    if (round % 3 == 1) {
      cluster("restart api-bridge");  // cuts every connection
    } else if (round % 3 == 2) {
      cluster("kill kube-apiserver");
      cluster("start kube-apiserver");
    }
    ASSERT_TRUE(wait([&] { return answers == calls.size(); }));
    Request alive = get_request("/readyz");
    alive.deadline = 60s;
    alive.max_attempts = 1000;
    must(std::move(alive));
  }
  expect_equal("/api/v1/nodes");
  for (int tries = 0; tries < 100; ++tries) {
    const auto listed = fresh_list("/api/v1/pods");
    if (wait([&] { return pods.versions == listed; }, 1s)) {
      break;
    }
    ASSERT_LT(tries, 99) << "the sink never came to show the pods that are listed";
  }
  EXPECT_GT(changes, 200U);
  EXPECT_GT(pod_reflector.counts().failures + reflector_->counts().failures, 2U);
}

}  // namespace
}  // namespace tessera::kube
