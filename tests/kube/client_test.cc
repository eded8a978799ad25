#include "kube/client.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "../base/temporary_directory.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "client_fixture.h"
#include "kube/event_recorder.h"
#include "kube/leader_elector.h"

namespace tessera::kube {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST_F(ClientTest, SendsUserAgentTokenAndDeadline) {
  access_.user.token = "secret";
  respond_with({});
  const auto reply = client().fetch(patch_request(node_path("gpu-a"), R"({"a":1})"));
  ASSERT_TRUE(reply) << reply.error().text();
  EXPECT_EQ(reply->body.text(), R"({"ok":true})");
  const auto& seen = server_.seen.at(0);
  EXPECT_EQ(seen.method, "PATCH");
  EXPECT_THAT(seen.target, ::testing::MatchesRegex("/api/v1/nodes/gpu-a\\?timeout=[0-9]+ms"));
  EXPECT_EQ(seen.user_agent, "tessera-test/1");
  EXPECT_EQ(seen.authorization, "Bearer secret");
  EXPECT_EQ(seen.content_type, "application/merge-patch+json");
}

TEST_F(ClientTest, RetriesAReadUntilItSucceeds) {
  respond_with({refusal(500), refusal(503), refusal(429)});
  EXPECT_TRUE(client().fetch(get_request("/version")));
  EXPECT_EQ(server_.seen.size(), 4U);
}

TEST_F(ClientTest, DoesNotRetryABindThatMayHaveSucceeded) {
  respond_with({refusal(500)});
  auto request =
      bind_request({.namespace_name = "ml", .pod = "p", .uid = "u", .node = "n", .annotations = {}});
  ASSERT_TRUE(request);
  const auto reply = client().fetch(std::move(*request));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), ErrorCode::kTimeout);
  EXPECT_EQ(server_.seen.size(), 1U);
  EXPECT_EQ(reply.error().text(),
            "pod ml/p: bind to n: the API server responded 500: the test says no; whether the server "
            "processed it is unknown");
}

// The deadline has passed already. The callback must run after send() has returned the Call, and
// not at all if the Call was destroyed.
TEST_F(ClientTest, CallsBackAfterSendHasReturned) {
  Client sender = client();
  Call call;
  bool returned = false;
  std::optional<bool> had_returned;
  loop_.post([&] {
    Request late = get_request("/version");
    late.deadline = 0ms;
    call = sender.send(std::move(late), [&](const Result<Reply>& reply) {
      EXPECT_EQ(reply.error().text(), "GET /version: not sent: the deadline has passed");
      had_returned = returned;
    });
    Request dropped = get_request("/version");
    dropped.deadline = 0ms;
    static_cast<void>(sender.send(std::move(dropped), [](const Result<Reply>&) { FAIL(); }).active());
    returned = true;
  });
  ASSERT_TRUE(loop_.run_until([&] { return had_returned.has_value(); }, 5s));
  EXPECT_TRUE(*had_returned);
}

TEST_F(ClientTest, WaitsForRetryAfterButNotBeyondTheDeadline) {
  respond_with({refusal(429, {{"Retry-After", "1"}})});
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(client().fetch(get_request("/version")));
  EXPECT_GE(std::chrono::steady_clock::now() - began, 1s);
  respond_with({refusal(429, {{"Retry-After", "60"}})});
  Request request = get_request("/version");
  request.deadline = 30s;
  const auto reply = client().fetch(std::move(request));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), ErrorCode::kUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 50s);
}

TEST_F(ClientTest, ReadsARotatedTokenWhenTheOldOneIsRefused) {
  const TemporaryDirectory dir;
  ASSERT_TRUE(write_file(dir / "token", "old"));
  access_.user.token_file = dir / "token";
  respond_with({});
  server_.token = "old";
  Client client = this->client();
  EXPECT_TRUE(client.fetch(get_request("/version")));
  ASSERT_TRUE(write_file(dir / "token", "new"));
  server_.token = "new";
  EXPECT_TRUE(client.fetch(get_request("/version")));
  EXPECT_EQ(server_.seen.size(), 3U);
  server_.token = "newer";
  const auto reply = client.fetch(get_request("/version"));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), ErrorCode::kDenied);
  EXPECT_THAT(reply.error().text(), HasSubstr("log in again"));
}

TEST_F(ClientTest, RunsAnExecPluginOnAnotherThreadAndOnceForAllRequests) {
  std::atomic<int> runs = 0;
  std::thread::id plugin_thread;
  use_plugin([&]() -> Result<ExecCredential> {
    plugin_thread = std::this_thread::get_id();
    return ExecCredential{
        .token = fmt::format("t{}", ++runs), .client_certificate = "", .client_key = "", .expires = {}};
  });
  respond_with({});
  server_.token = "t1";
  Client client = this->client();
  int answers = 0;
  std::vector<Call> calls;
  for (int i = 0; i < 5; ++i) {
    calls.push_back(
        client.send(get_request("/version"), [&](const Result<Reply>& reply) { answers += reply ? 1 : 0; }));
  }
  ASSERT_TRUE(loop_.run_until([&] { return answers == 5; }, 20s));
  EXPECT_EQ(runs, 1);
  EXPECT_NE(plugin_thread, std::this_thread::get_id());
  server_.token = "t2";
  EXPECT_TRUE(client.fetch(get_request("/version"))) << "the plugin must run again after 401";
  EXPECT_EQ(runs, 2);
}

TEST_F(ClientTest, ReturnsTheErrorOfAFailedPlugin) {
  use_plugin([]() -> Result<ExecCredential> { return fail(ErrorCode::kDenied, "log in first"); });
  const auto reply = client().fetch(get_request("/version"));
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().text(), HasSubstr("log in first"));
}

TEST_F(ClientTest, ADestroyedCallGetsNoCallback) {
  respond_with({refusal(500), refusal(500), refusal(500)});
  Client client = this->client();
  bool answered = false;
  {
    const Call call = client.send(get_request("/version"), [&](const Result<Reply>&) { answered = true; });
    ASSERT_TRUE(loop_.run_until([&] { return !server_.seen.empty(); }, 20s));
  }
  loop_.run_until([] { return false; }, 20ms);
  EXPECT_FALSE(answered);
}

TEST_F(ClientTest, FetchRunsTheLoopWhenTheLoopsThreadStops) {
  respond_with({});
  Client client = this->client();
  const auto answer = std::move(server_.intercept);
  server_.intercept = [&](const FakeApiServer::Seen& seen) {
    loop_.stop();
    return answer(seen);
  };
  std::promise<void> runs;
  loop_.post([&] { runs.set_value(); });
  std::thread thread([&] { loop_.run(); });
  runs.get_future().wait();
  EXPECT_TRUE(client.fetch(get_request("/version")));
  thread.join();
}

TEST_F(ClientTest, ErrorNamesTheUnreachableServer) {
  access_.cluster.server = "http://127.0.0.1:1";
  Request request = get_request("/version");
  request.deadline = 1s;
  const auto reply = client().fetch(std::move(request));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(reply.error().text(), HasSubstr("127.0.0.1:1"));
}

TEST_F(ClientTest, RejectsAnUnsupportedProxy) {
  access_.cluster.file = "/root/.kube/config";
  for (const char* url : {"https://user:s3cret@proxy:3128", "socks5://user:s3cret@proxy:1080"}) {
    access_.cluster.proxy_url = url;
    const auto made = Client::create(loop_, access_, options_);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), ErrorCode::kUnsupported);
    EXPECT_THAT(made.error().text(), HasSubstr("/root/.kube/config: cluster \"\": proxy-url"));
    EXPECT_THAT(made.error().text(), ::testing::Not(HasSubstr("s3cret")));
  }
}

TEST_F(ClientTest, ImpersonatesTheUserOfTheKubeconfig) {
  access_.user.impersonate = {.user = "jane", .uid = "7", .groups = {"a", "b"}, .extra = {{"scopes/x", "v"}}};
  server_.intercept = [](const FakeApiServer::Seen&) { return http::Response{.body = "{}"}; };
  EXPECT_TRUE(client().fetch(get_request("/version")));
  const std::vector<std::pair<std::string, std::string>> expected{{"Impersonate-User", "jane"},
                                                                  {"Impersonate-Uid", "7"},
                                                                  {"Impersonate-Group", "a"},
                                                                  {"Impersonate-Group", "b"},
                                                                  {"Impersonate-Extra-scopes%2Fx", "v"}};
  EXPECT_EQ(server_.seen.at(0).impersonation, expected);
}

TEST(Requests, BindContainsTheRecordAndTheUid) {
  auto request = bind_request({.namespace_name = "ml",
                               .pod = "train-7",
                               .uid = "u-1",
                               .node = "gpu-a",
                               .annotations = {{"tessera.io/allocation", "{\"v\":1}"}}});
  ASSERT_TRUE(request);
  EXPECT_EQ(request->path, "/api/v1/namespaces/ml/pods/train-7/binding");
  EXPECT_EQ(
      request->body,
      R"({"apiVersion":"v1","kind":"Binding","metadata":{"name":"train-7","namespace":"ml","uid":"u-1",)"
      R"("annotations":{"tessera.io/allocation":"{\"v\":1}"}},)"
      R"("target":{"apiVersion":"v1","kind":"Node","name":"gpu-a"}})");
  EXPECT_EQ(request->retry.repeat, Repeat::kIfNotActed);
}

TEST(Requests, BindRejectsInvalidAnnotations) {
  for (const char* key : {"", "-x", "a b", "tessera.io/", "/x", "a/b/c", "tessera..io/x", "x_"}) {
    EXPECT_FALSE(check_annotations({{key, "v"}})) << key;
  }
  for (const char* key : {"ALIYUN_COM_GPU_MEM_IDX", "tessera.io/allocation",
                          "scheduler.framework.gpushare.allocation", "A/b"}) {
    EXPECT_TRUE(check_annotations({{key, "v"}})) << key;
  }
  EXPECT_FALSE(check_annotations({{"a", std::string(256 << 10, 'x')}}));
  EXPECT_FALSE(check_annotations({{std::string(64, 'x'), "v"}}));
}

TEST(Requests, PathsAreEncoded) {
  EXPECT_EQ(pod_path("", ""), "/api/v1/pods");
  EXPECT_EQ(pod_path("a", "b/../c"), "/api/v1/namespaces/a/pods/b%2F..%2Fc");
  EXPECT_EQ(lease_path("kube-system", "x"), "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x");
  EXPECT_EQ(evict_request("ml", "p", "u").body,
            R"({"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p","namespace":"ml"},)"
            R"("deleteOptions":{"preconditions":{"uid":"u"}}})");
}

TEST_F(ClientTest, ElectorCreatesRenewsAndHandsOver) {
  // A Lease that behaves as in the API server.
  std::string lease;
  int version = 0;
  server_.intercept = [&](const FakeApiServer::Seen& request) -> std::optional<http::Response> {
    if (request.method == "GET") {
      return lease.empty() ? refusal(404) : http::Response{.body = lease};
    }
    auto record =
        *parse_lease(request.method == "POST" ? R"({"metadata":{"resourceVersion":"0"}})" : request.body);
    if (request.method == "PATCH" && record.resource_version != std::to_string(version)) {
      return refusal(409);
    }
    if (request.method == "POST") {
      const auto body = parse_json(request.body);
      record.holder = *JsonReader(*JsonReader(*body, "").object("spec")).text("holderIdentity");
      record.duration = 15s;
    }
    record.resource_version = std::to_string(++version);
    lease = lease_to_patch(record);
    return http::Response{.body = lease};
  };
  Client client = this->client();
  std::vector<bool> changes;
  const LeaderElectorOptions options{
      .namespace_name = "ns",
      .lease = "tessera-extender",
      .election = {.identity = "a", .duration = 15s, .renew_deadline = 10s, .retry_period = 1s}};
  auto elector = LeaderElector::create(client, options, [&](bool leading) { changes.push_back(leading); });
  ASSERT_TRUE(elector);
  EXPECT_EQ((*elector)->time_left(), 0ms);
  (*elector)->start();
  ASSERT_TRUE(loop_.run_until([&] { return (*elector)->leading(); }, 20s));
  EXPECT_GT((*elector)->time_left(), 9s);
  ASSERT_TRUE(loop_.run_until([&] { return version == 2; }, 20s)) << "the lease was not renewed";
  bool released = false;
  (*elector)->hand_over([&] { released = true; });
  EXPECT_FALSE((*elector)->leading());
  ASSERT_TRUE(loop_.run_until([&] { return released; }, 20s));
  EXPECT_EQ(parse_lease(lease)->holder, "");
  EXPECT_THAT(changes, ::testing::ElementsAre(true, false));
}

TEST_F(ClientTest, EventsAreWrittenInTheBackground) {
  std::vector<FakeApiServer::Seen> events;
  server_.intercept = [&](const FakeApiServer::Seen& request) -> std::optional<http::Response> {
    events.push_back(request);
    return request.method == "PATCH" && events.size() == 2 ? refusal(404) : http::Response{.body = "{}"};
  };
  Client client = this->client();
  EventRecorder recorder(client, {.aggregator = {.component = "t", .instance = "i"}, .pace = 1ms});
  const EventNote note{.about = {.kind = "Pod", .namespace_name = "ml", .name = "p", .uid = "u"},
                       .warning = true,
                       .reason = "R",
                       .message = "m"};
  std::thread other([&] { EXPECT_TRUE(recorder.record(note)); });
  ASSERT_TRUE(loop_.run_until([&] { return recorder.idle() && !events.empty(); }, 20s));
  other.join();
  EXPECT_EQ(events[0].target.substr(0, 31), "/api/v1/namespaces/ml/events?ti");
  EXPECT_TRUE(recorder.record(note));
  ASSERT_TRUE(loop_.run_until([&] { return events.size() == 3 && recorder.idle(); }, 20s));
  EXPECT_EQ(events[1].method, "PATCH");
  EXPECT_EQ(events[2].method, "POST") << "the first Event had expired";
  EXPECT_EQ(recorder.counts().failed, 0U);
}

}  // namespace
}  // namespace tessera::kube
