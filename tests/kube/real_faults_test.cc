// Every fault of the fault proxy between our client and a real API server. See real_api_server.h
// for how the server is started.
#include <fmt/core.h>

#include <optional>

#include "fault_proxy.h"
#include "real_api_server.h"
#include "test_certificates.h"

namespace tessera::kube {
namespace {

using namespace std::chrono_literals;
using proxy::Fault;
using proxy::FaultKind;

class Faults : public Watching {
 protected:
  Faults() : authority_("fault proxy"), direct_(access("TESSERA_TEST_TOKEN_KUBECONFIG")) {
    const http::PemPair pair = authority_.issue({.addresses = {"127.0.0.1"}});
    proxy_.emplace(
        proxy::FaultProxy::start({.upstream = direct_.cluster.server,
                                  .upstream_ca = direct_.cluster.certificate_authority.read().value(),
                                  .tls = {.certificate_pem = pair.certificate, .key_pem = pair.key}})
            .value());
    ClusterAccess through_proxy = direct_;
    through_proxy.cluster.server = proxy_->url();
    through_proxy.cluster.certificate_authority = {.data = authority_.certificate(), .file = ""};
    faulty_.emplace(client(through_proxy, {.backoff = {.first = 10ms, .cap = 100ms}}));
    options_.backoff = {.first = 10ms, .cap = 100ms};
    options_.idle = 1s;
    options_.page_deadline = 5s;
  }
  ~Faults() override { reflector_.reset(); }

  // Sends a request through the proxy. `hits` returns the number of injected faults.
  Result<Reply> send(Request request, std::size_t& hits) {
    const std::size_t before = proxy_->hits();
    auto reply = faulty_->fetch(std::move(request));
    hits = proxy_->hits() - before;
    return reply;
  }

  http::TestAuthority authority_;
  ClusterAccess direct_;
  std::optional<proxy::FaultProxy> proxy_;
  std::optional<Client> faulty_;
};

TEST_F(Faults, RetriesAReadUntilItSucceeds) {
  for (const Fault& fault : {Fault{.kind = FaultKind::kAnswer, .times = 2, .status = 500},
                             Fault{.kind = FaultKind::kAnswer, .times = 2, .status = 429},
                             Fault{.kind = FaultKind::kCut, .times = 2, .reset = true},
                             Fault{.kind = FaultKind::kLoseAnswer, .times = 2},
                             Fault{.kind = FaultKind::kTruncate, .times = 2, .after_bytes = 40}}) {
    proxy_->inject(fault);
    std::size_t hits = 0;
    const auto reply = send(get_request("/api/v1/namespaces/default"), hits);
    EXPECT_TRUE(reply) << static_cast<int>(fault.kind) << ": " << reply.error().text();
    EXPECT_EQ(hits, 2U) << static_cast<int>(fault.kind);
    proxy_->clear();
  }
}

TEST_F(Faults, WaitsForADelayedResponseUpToTheDeadline) {
  std::size_t hits = 0;
  proxy_->inject({.kind = FaultKind::kDelay, .delay = 300ms});
  EXPECT_TRUE(send(get_request("/version"), hits));
  EXPECT_EQ(hits, 1U);
  proxy_->inject({.kind = FaultKind::kDelay, .times = -1, .delay = 20s});
  Request hasty = get_request("/version");
  hasty.deadline = 400ms;
  const auto began = std::chrono::steady_clock::now();
  const auto reply = send(std::move(hasty), hits);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), ErrorCode::kTimeout) << reply.error().text();
  EXPECT_LT(std::chrono::steady_clock::now() - began, 15s);
}

TEST_F(Faults, DoesNotRetryABindThatMayHaveSucceeded) {
  must(create_request(node_path(""), node_body("fault-node")));
  for (const Fault& fault :
       {Fault{.kind = FaultKind::kAnswer, .status = 500}, Fault{.kind = FaultKind::kCut},
        Fault{.kind = FaultKind::kLoseAnswer}, Fault{.kind = FaultKind::kTruncate, .after_bytes = 10}}) {
    const auto made =
        *parse_json(must(create_request(pod_path("default", ""), pod_body("fault-pod", ""))).body.text());
    const std::string uid = *JsonReader(*JsonReader(made, "").object("metadata")).text("uid");
    auto binding = bind_request({.namespace_name = "default",
                                 .pod = "fault-pod",
                                 .uid = uid,
                                 .node = "fault-node",
                                 .annotations = {}});
    ASSERT_TRUE(binding);
    Fault on_bind = fault;
    on_bind.target_has = "/binding";
    on_bind.times = -1;
    proxy_->inject(on_bind);
    std::size_t hits = 0;
    const auto reply = send(std::move(*binding), hits);
    ASSERT_FALSE(reply) << static_cast<int>(fault.kind);
    EXPECT_EQ(reply.error().code(), ErrorCode::kTimeout) << reply.error().text();
    EXPECT_EQ(hits, 1U) << "must be sent only once";
    const auto pod = *parse_json(must(get_request(pod_path("default", "fault-pod"))).body.text());
    const JsonReader spec = *JsonReader(pod, "").object("spec");
    const bool done = fault.kind == FaultKind::kLoseAnswer || fault.kind == FaultKind::kTruncate;
    EXPECT_EQ(spec.has("nodeName"), done) << reply.error().text();
    must(kill_pod_request("fault-pod"));
    proxy_->clear();
  }
  must(delete_request(node_path("fault-node")));
}

TEST_F(Faults, RetriesIfTheServerCertainlyDidNotAct) {
  proxy_->inject(
      {.kind = FaultKind::kAnswer, .method = "POST", .status = 429, .headers = {{"Retry-After", "1"}}});
  std::size_t hits = 0;
  const auto began = std::chrono::steady_clock::now();
  const auto made = send(create_request(node_path(""), node_body("refused-once")), hits);
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(hits, 1U);
  EXPECT_GE(std::chrono::steady_clock::now() - began, 1s) << "must wait for Retry-After";
  proxy_->inject({.kind = FaultKind::kAnswer, .method = "PATCH", .times = 2, .status = 409});
  const auto patched =
      send(patch_request(node_path("refused-once"), R"({"metadata":{"labels":{"a":"b"}}})"), hits);
  EXPECT_TRUE(patched) << "a patch of plain values must be retried: " << patched.error().text();
  EXPECT_EQ(hits, 2U);
  proxy_->inject({.kind = FaultKind::kAnswer, .method = "POST", .times = -1, .status = 409});
  const auto again = send(create_request(node_path(""), node_body("refused-once")), hits);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), ErrorCode::kConflict);
  EXPECT_EQ(hits, 1U) << "409 for an existing object is permanent";
  must(delete_request(node_path("refused-once")));
}

// A fault of a watch, and whether the reflector must re-list because of it.
struct WatchFault {
  const char* name;
  Fault fault;
  bool lists_again;
};

class WatchFaults : public Faults, public ::testing::WithParamInterface<WatchFault> {};

TEST_P(WatchFaults, NoChangeIsLostOrDeliveredTwice) {
  Fault fault = GetParam().fault;
  fault.target_has = fault.target_has.empty() ? "watch=1" : fault.target_has;
  const auto times = static_cast<std::size_t>(fault.times);
  proxy_->inject(fault);
  start(*faulty_);
  for (int i = 0; i < 12; ++i) {
    const std::string name = fmt::format("watched-{}", i % 4);
    must(create_request(node_path(""), node_body(name)));
    must(patch_request(node_path(name), fmt::format(R"({{"metadata":{{"labels":{{"x":"{}"}}}}}})", i)));
    must(delete_request(node_path(name)));
  }
  must(create_request(node_path(""), node_body("watched-last")));
  expect_equal("/api/v1/nodes", sink_);
  ASSERT_TRUE(wait([&] { return proxy_->hits() == times; }, 20s)) << "not all faults were injected";
  expect_equal("/api/v1/nodes", sink_);
  EXPECT_EQ(reflector_->counts().lists > 1, GetParam().lists_again);
  must(delete_request(node_path("watched-last")));
}

INSTANTIATE_TEST_SUITE_P(
    Every, WatchFaults,
    ::testing::Values(
        WatchFault{"Delay", {.kind = FaultKind::kDelay, .times = 1, .delay = 300ms}, false},
        WatchFault{"Cut", {.kind = FaultKind::kCut, .times = 3}, false},
        WatchFault{"Reset", {.kind = FaultKind::kCut, .times = 3, .reset = true}, false},
        WatchFault{"TruncatedStream", {.kind = FaultKind::kTruncate, .times = 3, .after_bytes = 700}, false},
        WatchFault{"HalfChunk", {.kind = FaultKind::kHalfChunk, .times = 3, .after_lines = 2}, false},
        WatchFault{"HalfOfTheFirstChunk", {.kind = FaultKind::kHalfChunk, .times = 3, .reset = true}, false},
        WatchFault{"Stall", {.kind = FaultKind::kStall, .times = 2, .after_lines = 1}, false},
        WatchFault{"EndInOrder", {.kind = FaultKind::kEndStream, .times = 3, .after_lines = 1}, false},
        WatchFault{"Status500", {.kind = FaultKind::kAnswer, .times = 3, .status = 500}, false},
        WatchFault{"Status429", {.kind = FaultKind::kAnswer, .times = 3, .status = 429}, false},
        WatchFault{"Status410", {.kind = FaultKind::kAnswer, .times = 3, .status = 410}, true}),
    [](const auto& entry) { return entry.param.name; });

TEST_F(Faults, DuplicatedEventsAreDeliveredOnce) {
  proxy_->inject({.kind = FaultKind::kDuplicate, .target_has = "watch=1", .times = -1});
  start(*faulty_);
  for (int i = 0; i < 5; ++i) {
    must(create_request(node_path(""), node_body("twice")));
    must(delete_request(node_path("twice")));
  }
  must(create_request(node_path(""), node_body("twice-last")));
  ASSERT_TRUE(wait([&] { return sink_.versions.contains("/twice-last"); }));
  expect_equal("/api/v1/nodes", sink_);
  EXPECT_GE(reflector_->counts().repeated, 10U);
  EXPECT_EQ(reflector_->counts().lists, 1U);
  must(delete_request(node_path("twice-last")));
}

TEST_F(Faults, StartsTheListAgainIfAPageFails) {
  for (int i = 0; i < 7; ++i) {
    must(create_request(node_path(""), node_body(fmt::format("page-{}", i))));
  }
  options_.page_items = 2;
  for (const Fault& fault :
       {Fault{.kind = FaultKind::kTruncate, .after_bytes = 100},
        Fault{.kind = FaultKind::kAnswer, .status = 410}, Fault{.kind = FaultKind::kAnswer, .status = 500},
        Fault{.kind = FaultKind::kDelay, .delay = 200ms}, Fault{.kind = FaultKind::kLoseAnswer}}) {
    Fault on_page = fault;
    on_page.target_has = "continue=";
    on_page.skip = 1;
    proxy_->inject(on_page);
    sink_.versions.clear();
    sink_.syncs = 0;
    start(*faulty_);
    expect_equal("/api/v1/nodes", sink_);
    EXPECT_GE(sink_.versions.size(), 7U);
    reflector_.reset();
    proxy_->clear();
  }
  EXPECT_EQ(proxy_->hits(), 5U);
  for (int i = 0; i < 7; ++i) {
    must(delete_request(node_path(fmt::format("page-{}", i))));
  }
}

TEST_F(Faults, ReportsAndRecoversFromAPulledCable) {
  start(*faulty_);
  proxy_->freeze(true);
  must(create_request(node_path(""), node_body("behind-the-cable")));
  ASSERT_TRUE(wait([&] { return reflector_->problem().has_value(); }, 20s));
  EXPECT_FALSE(sink_.versions.contains("/behind-the-cable"));
  proxy_->cut_all();
  proxy_->freeze(false);
  expect_equal("/api/v1/nodes", sink_);
  EXPECT_TRUE(sink_.versions.contains("/behind-the-cable"));
  must(delete_request(node_path("behind-the-cable")));
}

}  // namespace
}  // namespace tessera::kube
