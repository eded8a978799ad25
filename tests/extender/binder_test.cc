#include "extender/binder.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <deque>
#include <thread>

#include "../alloc/cluster.h"
#include "collected_events.h"
#include "http/server.h"

namespace tessera::extender {
namespace {

using namespace std::chrono_literals;
using alloc::testing::container;
using alloc::testing::node_of;
using alloc::testing::pod_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FakePermission final : public BindPermission {
 public:
  std::chrono::milliseconds time_left() override { return left; }
  [[nodiscard]] bool starts_soon() const override { return soon; }

  std::chrono::milliseconds left{300};
  bool soon = false;
};

// The part of an API server that a bind needs: one pod, whose bindings can be accepted, lost or
// rejected.
class BinderTest : public ::testing::Test {
 protected:
  enum class Binding { kDo, kDoAndLoseReply, kLoseBefore, kRefuse, kForbid };

  BinderTest() {
    state_.keep_node(node_of("gpu-a", {32, 32}));
    state_.keep_node(node_of("gpu-b", {32}));
    state_.keep_pod(pod_);
    Result<http::Server> server = http::Server::create(
        loop_, {}, [this](http::Request& request, http::Reply reply) { answer(request, std::move(reply)); });
    EXPECT_TRUE(server) << server.error().text();
    server_.emplace(*std::move(server));
    kube::ClusterAccess access;
    access.cluster.server = fmt::format("http://127.0.0.1:{}", server_->port());
    Result<kube::Client> client = kube::Client::create(loop_, access, {});
    EXPECT_TRUE(client) << client.error().text();
    client_.emplace(*std::move(client));
    context_.emplace(Context{.client = *client_, .state = state_, .events = events_, .metrics = metrics_});
    binder_.emplace(*context_, permission_,
                    BinderOptions{.timeout = 300ms,
                                  .answer_within = 1500ms,
                                  .ask_again = 20ms,
                                  .unseen_for = 50ms,
                                  .early_for = 500ms});
  }

  static boost::json::object pod_json(const std::string& uid, const std::string& node,
                                      const boost::json::object& annotations) {
    return {
        {"metadata",
         {{"name", "p"},
          {"namespace", "ml"},
          {"uid", uid},
          {"resourceVersion", "7"},
          {"annotations", annotations}}},
        {"spec",
         {{"nodeName", node},
          {"containers", {{{"name", "main"}, {"resources", {{"limits", {{"aliyun.com/gpu-mem", "8"}}}}}}}}}},
        {"status", {{"phase", "Pending"}}}};
  }

  static http::Response refusal(int status, const std::string& reason, const std::string& message) {
    return {.status = status,
            .body = boost::json::serialize(boost::json::object{{"kind", "Status"},
                                                               {"status", "Failure"},
                                                               {"reason", reason},
                                                               {"message", message},
                                                               {"code", status}})};
  }

  void answer(http::Request& request, http::Reply reply) {
    if (request.method() == "GET") {
      ++gets_;
      if (!exists_) {
        reply.send(refusal(404, "NotFound", "pods \"p\" not found"));
        return;
      }
      reply.send({.body = boost::json::serialize(pod_json(uid_, bound_to_, annotations_))});
      return;
    }
    posts_.emplace_back(request.body().text());
    const Binding how = how_.empty() ? Binding::kDo : how_.front();
    if (!how_.empty()) {
      how_.pop_front();
    }
    if (how == Binding::kForbid) {
      reply.send(refusal(403, "Forbidden", "may not"));
      return;
    }
    if (how == Binding::kRefuse || (!bound_to_.empty() && how == Binding::kDo)) {
      reply.send(refusal(409, "Conflict", "pod p is already assigned to node \"" + bound_to_ + "\""));
      return;
    }
    if (how != Binding::kLoseBefore) {
      const boost::json::value body = boost::json::parse(posts_.back());
      bound_to_ = std::string(body.at("target").at("name").as_string());
      annotations_ = body.at("metadata").at("annotations").as_object();
    }
    if (how == Binding::kDo) {
      reply.send({.status = 201, .body = "{}"});
      return;
    }
    lost_.push_back(std::move(reply));  // never answered
  }

  void bind(const std::string& node = "gpu-a", const std::string& uid = "uid-p") {
    binder_->bind({.pod = "p", .namespace_name = "ml", .uid = uid, .node = node},
                  [this](const std::string& error) { answers_.push_back(error); });
  }
  bool answered(std::size_t count) {
    return loop_.run_until([&] { return answers_.size() >= count; }, 10s);
  }
  bool settled() {
    return loop_.run_until([&] { return binder_->in_flight() == 0; }, 10s);
  }
  std::uint64_t free_units(const std::string& node) {
    return state_.ledger().view(*state_.ledger().find_node(node)).free_units;
  }

  http::EventLoop loop_;
  alloc::PodSpec pod_ = pod_of("p", {container("main", 8)});
  ClusterState state_{{}};
  FakePermission permission_;
  CollectedEvents events_;
  Metrics metrics_;
  std::optional<http::Server> server_;
  std::optional<kube::Client> client_;
  std::optional<Context> context_;
  std::optional<Binder> binder_;
  std::vector<std::string> answers_;
  // The state of the API server.
  std::deque<Binding> how_;
  std::string uid_ = "uid-p";
  bool exists_ = true;
  std::string bound_to_;
  boost::json::object annotations_;
  std::vector<std::string> posts_;
  std::vector<http::Reply> lost_;
  int gets_ = 0;
};

TEST_F(BinderTest, BindsWithOneWriteThatContainsNodeAndRecord) {
  bind();
  ASSERT_TRUE(answered(1));
  EXPECT_EQ(answers_[0], "");
  ASSERT_EQ(posts_.size(), 1U);
  EXPECT_EQ(gets_, 0);
  const boost::json::value body = boost::json::parse(posts_[0]);
  EXPECT_EQ(body.at("metadata").at("uid").as_string(), "uid-p");
  EXPECT_EQ(body.at("target").at("name").as_string(), "gpu-a");
  const boost::json::object& annotations = body.at("metadata").at("annotations").as_object();
  EXPECT_TRUE(annotations.contains("tessera.io/allocation"));
  EXPECT_EQ(annotations.at("ALIYUN_COM_GPU_MEM_IDX").as_string(), "0");
  EXPECT_EQ(annotations.at("ALIYUN_COM_GPU_MEM_POD").as_string(), "8");
  EXPECT_EQ(free_units("gpu-a"), 56U);
  ASSERT_EQ(events_.notes.size(), 1U);
  EXPECT_THAT(events_.notes[0].message, HasSubstr("GPU 0 (GPU-gpu-a-0) 8GiB on node gpu-a"));
}

TEST_F(BinderTest, OverridesRecordsThatThePodWasCreatedWith) {
  state_.keep_node(alloc::testing::original_node("old", 120, 4));
  pod_.annotations["scheduler.framework.gpushare.allocation"] = R"({"0":{"3":8}})";
  pod_.annotations["tessera.io/allocation"] =
      R"({"v":1,"containers":{"main":[{"gpu":"GPU-made-up","mem":8}]}})";
  state_.keep_pod(pod_);
  bind("old");
  ASSERT_TRUE(answered(1));
  EXPECT_EQ(answers_[0], "");
  const boost::json::value body = boost::json::parse(posts_.at(0));
  // The API server merges the annotations of the Binding over those of the pod.
  for (const auto& [name, value] : body.at("metadata").at("annotations").as_object()) {
    pod_.annotations[std::string(name)] = std::string(value.as_string());
  }
  pod_.node_name = "old";
  state_.keep_pod(pod_);
  const alloc::NodeView view = state_.ledger().view(*state_.ledger().find_node("old"));
  EXPECT_EQ(view.free[0], 22U);
  EXPECT_EQ(view.free[3], 30U);
  EXPECT_THAT(state_.ledger().problems(), IsEmpty());
}

TEST_F(BinderTest, FreesTheGpuOfABoundPodThatTheWatchNeverShowed) {
  bind();
  ASSERT_TRUE(answered(1));
  EXPECT_EQ(free_units("gpu-a"), 56U);
  binder_->check_unseen();
  EXPECT_EQ(gets_, 0) << "the pod is not overdue yet";
  std::this_thread::sleep_for(60ms);
  binder_->check_unseen();
  ASSERT_TRUE(loop_.run_until([&] { return gets_ == 1; }, 10s));
  binder_->check_unseen();
  EXPECT_EQ(free_units("gpu-a"), 56U) << "the pod still exists";

  bound_to_.clear();
  uid_ = "uid-r";
  alloc::PodSpec next = pod_;
  next.uid = "uid-r";
  state_.keep_pod(next);
  bind("gpu-a", "uid-r");
  ASSERT_TRUE(answered(2));
  EXPECT_EQ(free_units("gpu-a"), 48U);
  exists_ = false;
  std::this_thread::sleep_for(60ms);
  binder_->check_unseen();
  ASSERT_TRUE(loop_.run_until([&] { return free_units("gpu-a") == 56U; }, 10s));
}

TEST_F(BinderTest, DoesNotFetchAPodThatTheWatchHasShown) {
  bind();
  ASSERT_TRUE(answered(1));
  alloc::PodSpec shown = pod_;
  shown.node_name = "gpu-a";
  state_.keep_pod(shown);
  std::this_thread::sleep_for(60ms);
  binder_->check_unseen();
  EXPECT_FALSE(loop_.run_until([&] { return gets_ > 0; }, 100ms));
}

TEST_F(BinderTest, BindsOnceForTwoCallsAndAnswersBoth) {
  bind();
  bind();
  ASSERT_TRUE(answered(2));
  bind();
  ASSERT_TRUE(answered(3));
  EXPECT_THAT(answers_, ::testing::Each(IsEmpty()));
  EXPECT_EQ(posts_.size(), 1U);
  EXPECT_EQ(free_units("gpu-a"), 56U);
}

// kube-scheduler asks to bind a pod only if it sees the pod unbound. After a restore of etcd from a
// backup, it is right, and the ledger is not.
TEST_F(BinderTest, BindsAgainAPodThatIsUnboundAfterARestore) {
  bind();
  ASSERT_TRUE(answered(1));
  bound_to_.clear();
  annotations_.clear();
  bind();
  ASSERT_TRUE(answered(2));
  EXPECT_THAT(answers_, ::testing::Each(IsEmpty()));
  EXPECT_EQ(posts_.size(), 2U);
  EXPECT_EQ(bound_to_, "gpu-a");
  EXPECT_EQ(free_units("gpu-a"), 56U);
}

TEST_F(BinderTest, BindsAPodThatIsUnboundAfterARestoreToAnotherNode) {
  alloc::PodSpec shown = pod_;
  shown.node_name = "gpu-a";
  state_.keep_pod(shown);
  bind("gpu-b");
  ASSERT_TRUE(answered(1));
  EXPECT_EQ(answers_[0], "");
  EXPECT_EQ(bound_to_, "gpu-b");
  EXPECT_EQ(free_units("gpu-a"), 64U);
  EXPECT_EQ(free_units("gpu-b"), 24U);
}

TEST_F(BinderTest, DoesNotSayThatAPodIsBoundWhileTheApiServerCannotBeAsked) {
  bind();
  ASSERT_TRUE(answered(1));
  exists_ = false;
  bind();
  ASSERT_TRUE(answered(2));
  EXPECT_THAT(answers_[1], HasSubstr("not found"));
  EXPECT_EQ(free_units("gpu-a"), 56U);
  EXPECT_EQ(binder_->counts().repeated, 1U);
  EXPECT_EQ(events_.notes.size(), 1U) << "only GpuAssigned";
}

TEST_F(BinderTest, FreesTheGpuOfAPodThatIsUnboundAfterARestore) {
  bind();
  ASSERT_TRUE(answered(1));
  bound_to_.clear();
  std::this_thread::sleep_for(60ms);
  binder_->check_unseen();
  EXPECT_TRUE(loop_.run_until([&] { return free_units("gpu-a") == 64U; }, 10s));
  EXPECT_NE(state_.find_waiting("uid-p"), nullptr);
}

TEST_F(BinderTest, RejectsABindToAnotherNodeDuringABind) {
  bind("gpu-a");
  bind("gpu-b");
  ASSERT_TRUE(answered(2));
  EXPECT_THAT(answers_[0], HasSubstr("being bound to node gpu-a"));
  EXPECT_EQ(answers_[1], "");
  bind("gpu-b");
  ASSERT_TRUE(answered(3));
  EXPECT_THAT(answers_[2], HasSubstr("already bound to node gpu-a"));
  EXPECT_EQ(posts_.size(), 1U);
  EXPECT_EQ(free_units("gpu-b"), 32U);
}

TEST_F(BinderTest, ReleasesTheGpuWhenTheApiServerRejectsTheBind) {
  how_ = {Binding::kForbid};
  bind();
  ASSERT_TRUE(answered(1));
  EXPECT_THAT(answers_[0], HasSubstr("may not"));
  EXPECT_EQ(free_units("gpu-a"), 64U);
  ASSERT_EQ(events_.notes.size(), 1U);
  EXPECT_TRUE(events_.notes[0].warning);
  EXPECT_EQ(events_.notes[0].reason, "GpuBindFailed");
}

TEST_F(BinderTest, SucceedsIfTheResponseWasLostAndThePodIsBound) {
  how_ = {Binding::kDoAndLoseReply};
  bind();
  ASSERT_TRUE(answered(1));
  EXPECT_EQ(answers_[0], "");
  EXPECT_EQ(binder_->counts().unknown, 1U);
  EXPECT_EQ(free_units("gpu-a"), 56U);
}

TEST_F(BinderTest, KeepsTheGpuAfterALostResponseUntilTheOutcomeIsKnown) {
  how_ = {Binding::kLoseBefore};
  bind();
  ASSERT_TRUE(loop_.run_until([&] { return gets_ == 1; }, 10s));
  EXPECT_EQ(free_units("gpu-a"), 56U);
  ASSERT_TRUE(answered(1));
  EXPECT_NE(answers_[0], "");
  EXPECT_GE(gets_, 2);
  EXPECT_EQ(free_units("gpu-a"), 64U);
}

TEST_F(BinderTest, FindsABindThatTheApiServerShowsLate) {
  how_ = {Binding::kLoseBefore};
  bind();
  ASSERT_TRUE(loop_.run_until([&] { return gets_ == 1; }, 10s));
  bound_to_ = "gpu-a";
  annotations_ = boost::json::parse(posts_[0]).at("metadata").at("annotations").as_object();
  ASSERT_TRUE(answered(1));
  EXPECT_EQ(answers_[0], "");
  EXPECT_EQ(free_units("gpu-a"), 56U);
}

TEST_F(BinderTest, SucceedsIfThePodIsAlreadyBoundToThatNode) {
  bound_to_ = "gpu-a";
  annotations_ = {
      {"tessera.io/allocation", R"({"v":1,"containers":{"main":[{"gpu":"GPU-gpu-a-1","mem":8}]}})"}};
  bind();
  ASSERT_TRUE(answered(1));
  EXPECT_EQ(answers_[0], "");
  // The pod's own record counts, not the choice of this extender.
  const auto view = state_.ledger().view(*state_.ledger().find_node("gpu-a"));
  EXPECT_EQ(view.free[0], 32U);
  EXPECT_EQ(view.free[1], 24U);
  ASSERT_EQ(events_.notes.size(), 1U);
  EXPECT_EQ(events_.notes[0].reason, "GpuAssigned");
  EXPECT_EQ(events_.notes[0].message, "Gets GPU 1 (GPU-gpu-a-1) 8GiB on node gpu-a");
}

TEST_F(BinderTest, NamesNoGpuForAPodThatIsBoundWithoutARecord) {
  bound_to_ = "gpu-a";
  bind();
  ASSERT_TRUE(answered(1));
  EXPECT_EQ(answers_[0], "");
  ASSERT_EQ(events_.notes.size(), 1U);
  EXPECT_EQ(events_.notes[0].message, "Gets GPUs that no record names on node gpu-a");
}

TEST_F(BinderTest, NamesARecordedGpuThatIsNotOnTheNode) {
  bound_to_ = "gpu-a";
  annotations_ = {{"tessera.io/allocation", R"({"v":1,"containers":{"main":[{"gpu":"GPU-gone","mem":8}]}})"}};
  bind();
  ASSERT_TRUE(answered(1));
  ASSERT_EQ(events_.notes.size(), 1U);
  EXPECT_EQ(events_.notes[0].message, "Gets GPU-gone (not on the node) 8GiB on node gpu-a");
}

TEST_F(BinderTest, ReleasesTheGpuIfThePodIsBoundElsewhere) {
  bound_to_ = "gpu-b";
  bind();
  ASSERT_TRUE(answered(1));
  EXPECT_THAT(answers_[0], HasSubstr("another client bound it to node gpu-b"));
  EXPECT_EQ(free_units("gpu-a"), 64U);
}

TEST_F(BinderTest, ReleasesTheGpuIfThePodIsGone) {
  how_ = {Binding::kRefuse};
  exists_ = false;
  bind();
  ASSERT_TRUE(answered(1));
  EXPECT_THAT(answers_[0], HasSubstr("gone"));
  EXPECT_EQ(free_units("gpu-a"), 64U);
}

TEST_F(BinderTest, IgnoresAnotherPodOfTheSameName) {
  uid_ = "uid-other";
  bind("gpu-a", "uid-unknown");
  ASSERT_TRUE(answered(1));
  EXPECT_THAT(answers_[0], HasSubstr("another pod"));
  EXPECT_THAT(posts_, IsEmpty());
}

TEST_F(BinderTest, FetchesAPodThatTheWatchHasNotShown) {
  uid_ = "uid-new";
  bind("gpu-a", "uid-new");
  ASSERT_TRUE(answered(1));
  EXPECT_EQ(answers_[0], "");
  EXPECT_EQ(gets_, 1);
  EXPECT_EQ(posts_.size(), 1U);
}

TEST_F(BinderTest, BindsNothingWhileItDoesNotLead) {
  permission_.left = 0ms;
  bind();
  ASSERT_TRUE(answered(1));
  EXPECT_THAT(answers_[0], HasSubstr("does not lead"));
  EXPECT_THAT(posts_, IsEmpty());
  EXPECT_EQ(free_units("gpu-a"), 64U);
}

// If the bind failed, kube-scheduler would retry only seconds later.
TEST_F(BinderTest, DelaysABindThatArrivesJustBeforeItMayBind) {
  permission_.left = 0ms;
  permission_.soon = true;
  bind();
  EXPECT_FALSE(loop_.run_until([&] { return !answers_.empty() || !posts_.empty(); }, 100ms));
  permission_.left = 300ms;
  ASSERT_TRUE(answered(1));
  EXPECT_EQ(answers_[0], "");
  EXPECT_EQ(posts_.size(), 1U);
  EXPECT_EQ(binder_->counts().not_leading, 0U);
}

TEST_F(BinderTest, RejectsADelayedBindIfItMayNotBindInTime) {
  permission_.left = 0ms;
  permission_.soon = true;
  bind();
  ASSERT_TRUE(answered(1)) << "the bind must be answered within early_for";
  bind();
  permission_.soon = false;
  ASSERT_TRUE(answered(2));
  EXPECT_THAT(answers_, ::testing::Each(HasSubstr("does not lead")));
  EXPECT_THAT(posts_, IsEmpty());
  EXPECT_EQ(binder_->counts().not_leading, 2U);
}

TEST_F(BinderTest, ReportsWhyThePodNoLongerFits) {
  pod_.uid = "uid-q";
  pod_.node_name = "gpu-b";
  pod_.containers = {container("main", 30)};
  pod_.annotations["tessera.io/allocation"] =
      R"({"v":1,"containers":{"main":[{"gpu":"GPU-gpu-b-0","mem":30}]}})";
  state_.keep_pod(pod_);
  bind("gpu-b");
  ASSERT_TRUE(answered(1));
  EXPECT_THAT(answers_[0], HasSubstr("no single GPU has 8GiB free"));
  EXPECT_THAT(posts_, IsEmpty());
  EXPECT_EQ(binder_->counts().no_room, 1U);
}

TEST_F(BinderTest, CallsBackWhenWritesEndEvenIfTheirOutcomeIsUnknown) {
  bool over = false;
  binder_->after_writes([&] { over = true; });
  EXPECT_TRUE(over) << "no write is in flight";
  over = false;
  how_ = {Binding::kLoseBefore};
  bind();
  binder_->after_writes([&] { over = true; });
  ASSERT_TRUE(loop_.run_until([&] { return !lost_.empty(); }, 10s));
  EXPECT_FALSE(over) << "the write is in flight";
  ASSERT_TRUE(loop_.run_until([&] { return over; }, 10s));
  EXPECT_EQ(binder_->in_flight(), 1U) << "the outcome is not known yet";
}

TEST_F(BinderTest, AnswersTheCallerAndKeepsTheGpuWhileTheApiServerIsSilent) {
  how_ = {Binding::kDoAndLoseReply};
  exists_ = true;
  bind();
  ASSERT_TRUE(loop_.run_until([&] { return posts_.size() == 1; }, 10s));
  server_.reset();
  ASSERT_TRUE(answered(1));
  EXPECT_THAT(answers_[0], HasSubstr("stay reserved"));
  EXPECT_EQ(free_units("gpu-a"), 56U);
  EXPECT_EQ(binder_->in_flight(), 1U);
  // When kube-scheduler retries, it must not wait longer than the first time.
  bind();
  ASSERT_TRUE(answered(2));
  EXPECT_THAT(answers_[1], HasSubstr("stay reserved"));
}

}  // namespace
}  // namespace tessera::extender
