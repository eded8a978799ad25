#include "extender/binder.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "alloc/legacy_record.h"
#include "base/log.h"
#include "kube/request.h"

namespace tessera::extender {

// One bind, from the call to the certainty of what became of it.
struct Binder::Flight {
  BindArgs args;
  Clock::Steady began{};
  std::vector<Done> callers;
  alloc::Hold hold;
  std::string unsure;  // why the outcome is not known; empty: it is, or nothing was written yet
  int looked = 0;      // GETs since then that showed the pod unbound
  kube::Call call;
  http::Timer timer;
  http::Timer patience;  // when it fires the callers are answered, whatever is known

  [[nodiscard]] std::string pod() const { return args.pod_namespace + "/" + args.pod; }
};

namespace {

// Between two looks whether what came early can be done. Only for moments, after another has led.
constexpr std::chrono::milliseconds kEarlyLook{20};

// "GPU 2 (GPU-5d3c...) 8GiB, GPU 3 (GPU-71aa...) whole".
std::string in_words(const alloc::PodHolding& holding, std::span<const alloc::GpuFacts> gpus,
                     alloc::Unit unit) {
  std::string text;
  for (const alloc::PodHolding::Part& part : holding.parts) {
    text += text.empty() ? "" : ", ";
    text += part.slot < 0
                ? fmt::format("{} (not on the node)", part.gpu)
                : fmt::format("GPU {} ({})", gpus[static_cast<std::size_t>(part.slot)].index, part.gpu);
    text += " " + (part.whole ? "whole" : unit.amount(part.units));
  }
  if (!text.empty()) {
    return text;
  }
  return holding.units > 0 || holding.whole > 0 ? "GPUs that no record names" : "no GPU";
}

}  // namespace

Binder::Binder(kube::Client& client, Books& books, BinderOptions options, MayActFor may_act_for,
               kube::EventSink& events)
    : client_(client),
      books_(books),
      options_(options),
      may_act_for_(std::move(may_act_for)),
      events_(events),
      reader_(books.names(), books.node_index()) {}

Binder::~Binder() {
  unseen_call_ = {};
  // Callbacks hold their flight, and the flight its call: cut the ring.
  for (auto& [uid, flight] : flights_) {
    flight->call = {};
    flight->timer.cancel();
    flight->patience.cancel();
    // A callback already queued keeps the flight for as long as the loop lives, and a hold must not
    // outlive its ledger.
    flight->hold.release();
  }
}

bool Binder::may_not_act_yet() const {
  return may_act_for_() <= std::chrono::milliseconds(0) && acts_soon_ && acts_soon_();
}

void Binder::bind(const BindArgs& args, Done done) {
  if (early_.size() >= options_.most_at_once || !may_not_act_yet()) {
    begin(args, std::move(done));
    return;
  }
  early_.push_back({args, std::move(done), client_.clock().now() + options_.early_for});
  if (!early_timer_.pending()) {
    early_timer_ = client_.loop().after(kEarlyLook, [this] { take_up_early(); });
  }
}

void Binder::take_up_early() {
  for (Early& one : std::exchange(early_, {})) {
    if (may_not_act_yet() && client_.clock().now() < one.until) {
      early_.push_back(std::move(one));
    } else {
      begin(one.args, std::move(one.done));
    }
  }
  if (!early_.empty()) {
    early_timer_ = client_.loop().after(kEarlyLook, [this] { take_up_early(); });
  }
}

void Binder::begin(const BindArgs& args, Done done) {
  if (may_act_for_() <= std::chrono::milliseconds(0)) {
    ++counts_.not_leading;
    done(
        "this tessera-extender does not lead, or has just begun to and reads the pods first; try again in a "
        "few seconds");
    return;
  }
  if (const auto found = flights_.find(args.uid); found != flights_.end()) {
    ++counts_.repeated;
    if (found->second->args.node == args.node) {
      found->second->callers.push_back(std::move(done));
      if (!found->second->patience.pending()) {
        answer_in_time(found->second);
      }
    } else {
      done(fmt::format("pod {} is just being bound to node {}", found->second->pod(),
                       found->second->args.node));
    }
    return;
  }
  if (const std::optional<alloc::PodHolding> holding = books_.ledger().holding(args.uid)) {
    ++counts_.repeated;
    const std::string& node = books_.ledger().node_name(holding->node);
    done(node == args.node
             ? ""
             : fmt::format("pod {}/{} is already bound to node {}", args.pod_namespace, args.pod, node));
    return;
  }
  if (flights_.size() >= options_.most_at_once) {
    ++counts_.refused;
    done(fmt::format("{} binds are under way already; try again", flights_.size()));
    return;
  }
  auto flight = std::make_shared<Flight>();
  flight->args = args;
  flight->began = client_.clock().now();
  flight->callers.push_back(std::move(done));
  flights_.emplace(args.uid, flight);
  if (const WaitingPod* pod = books_.find_waiting(args.uid)) {
    decide(flight, *pod);
  } else {
    fetch_pod(flight);
  }
}

// The scheduler's watch was faster than ours.
void Binder::fetch_pod(const FlightPtr& flight) {
  kube::Request request = kube::get_request(kube::pod_path(flight->args.pod_namespace, flight->args.pod));
  request.deadline = options_.timeout / 2;
  flight->call = client_.send(std::move(request), [this, flight](Result<kube::Reply> reply) {
    if (!reply) {
      ++counts_.refused;
      give_back(flight, reply.error().text());
      return;
    }
    alloc::PodSpec pod;
    if (Status status = reader_.pod(reply->body.view(), pod); !status) {
      ++counts_.invalid;
      give_back(flight, status.error().text());
    } else if (pod.uid != flight->args.uid) {
      ++counts_.refused;
      give_back(flight, fmt::format("it is another pod by now (UID {})", pod.uid));
    } else if (!pod.node_name.empty()) {
      books_.keep_pod(pod);
      expect_on_watch(*flight, true);
      if (pod.node_name == flight->args.node) {
        succeed(flight);
      } else {
        ++counts_.refused;
        give_back(flight, "it is already bound to node " + pod.node_name);
      }
    } else {
      decide(flight, books_.waiting_pod(pod));
    }
  });
}

void Binder::decide(const FlightPtr& flight, const WaitingPod& pod) {
  Result<kube::Request> request = reserve(*flight, pod);
  if (on_decided_) {
    on_decided_(client_.clock().now() - flight->began);
  }
  if (!request) {
    ++(request.error().code() == ErrorCode::kInvalid ? counts_.invalid : counts_.no_room);
    give_back(flight, request.error().text());
    return;
  }
  // Asked now and not before: a process that was stopped in between must not go on as if it still
  // led.
  const auto spent =
      std::chrono::duration_cast<std::chrono::milliseconds>(client_.clock().now() - flight->began);
  request->deadline = std::min(options_.timeout - spent, may_act_for_());
  if (request->deadline <= std::chrono::milliseconds(0)) {
    ++counts_.not_leading;
    give_back(flight, "there is no time left to bind it before another tessera-extender may lead");
    return;
  }
  answer_in_time(flight);
  ++writes_;
  flight->call = client_.send(std::move(*request), [this, flight](Result<kube::Reply> reply) {
    --writes_;
    posted(flight, std::move(reply));
    if (writes_ == 0 && after_writes_) {
      std::exchange(after_writes_, nullptr)();
    }
  });
}

void Binder::after_writes(std::function<void()> done) {
  if (writes_ == 0) {
    done();
  } else {
    after_writes_ = std::move(done);
  }
}

void Binder::answer_in_time(const FlightPtr& flight) {
  flight->patience = client_.loop().after(options_.answer_within, [this, weak = std::weak_ptr(flight)] {
    if (const FlightPtr late = weak.lock()) {
      answer(*late,
             fmt::format("it is not known yet whether the bind to {} was done ({}); its GPUs stay reserved "
                         "until the API server tells",
                         late->args.node, late->unsure.empty() ? "no reply" : late->unsure));
    }
  });
}

Result<kube::Request> Binder::reserve(Flight& flight, const WaitingPod& pod) {
  const alloc::Request& request = TRY(pod.request);
  alloc::Ledger& ledger = books_.ledger();
  const std::optional<alloc::NodeId> node = ledger.find_node(flight.args.node);
  if (!node) {
    return fail(ErrorCode::kExhausted, fmt::format("node {} is not known to Tessera", flight.args.node));
  }
  const alloc::Choice choice = TRY(books_.placer().choose(request, *node));
  flight.hold = TRY(ledger.reserve(pod.key, request, choice));

  // Old plugins serve pods in the order of this time, so no two pods may have the same.
  const auto wall =
      std::chrono::duration_cast<std::chrono::nanoseconds>(client_.clock().wall().time_since_epoch());
  last_assume_time_ns_ = std::max<std::int64_t>(last_assume_time_ns_ + 1, wall.count());
  const std::vector<alloc::GpuName> gpus = ledger.gpu_names(*node);
  alloc::Annotations annotations = TRY(alloc::binding_annotations(
      request.demand, ledger.record_of(request, choice), gpus,
      {.assume_time_ns = last_assume_time_ns_, .has_agent = !ledger.states().old_plugin(*node)}));
  alloc::empty_stale_records(pod.record_keys, annotations);
  return kube::bind_request({.namespace_name = flight.args.pod_namespace,
                             .pod = flight.args.pod,
                             .uid = flight.args.uid,
                             .node = flight.args.node,
                             .annotations = {annotations.begin(), annotations.end()}});
}

void Binder::posted(const FlightPtr& flight, Result<kube::Reply> reply) {
  if (reply) {
    succeed(flight);
    return;
  }
  switch (reply.error().code()) {
    case ErrorCode::kTimeout:
      ++counts_.unknown;
      log::warn("bind reply lost",
                {{"pod", flight->pod()}, {"node", flight->args.node}, {"why", reply.error()}});
      [[fallthrough]];
    case ErrorCode::kConflict:  // bound by somebody, perhaps by us; being deleted; another pod of that name
      flight->unsure = reply.error().text();
      flight->looked = reply.error().code() == ErrorCode::kConflict ? 1 : 0;
      ask(flight);
      return;
    default:
      ++counts_.refused;
      give_back(flight, reply.error().text());
  }
}

void Binder::ask(const FlightPtr& flight) {
  kube::Request request = kube::get_request(kube::pod_path(flight->args.pod_namespace, flight->args.pod));
  request.deadline = options_.timeout;
  flight->call = client_.send(std::move(request),
                              [this, flight](Result<kube::Reply> reply) { asked(flight, std::move(reply)); });
}

void Binder::ask_later(const FlightPtr& flight) {
  flight->timer = client_.loop().after(options_.ask_again, [this, flight] { ask(flight); });
}

void Binder::asked(const FlightPtr& flight, Result<kube::Reply> reply) {
  if (!reply && reply.error().code() == ErrorCode::kNotFound) {
    ++counts_.refused;
    give_back(flight, "the pod is gone");
    return;
  }
  alloc::PodSpec pod;
  if (!reply || !reader_.pod(reply->body.view(), pod)) {
    ask_later(flight);
    return;
  }
  if (pod.uid != flight->args.uid) {
    ++counts_.refused;
    give_back(flight, "the pod is gone; another one has its name");
    return;
  }
  if (pod.node_name.empty()) {
    // The server gives a write up when its time is over, but one that was just being done may show
    // only now: unbound counts when it is seen twice.
    if (++flight->looked < 2) {
      ask_later(flight);
      return;
    }
    ++counts_.refused;
    give_back(flight, flight->unsure);
    return;
  }
  // From here on the pod's own record counts, not our reservation.
  books_.keep_pod(pod);
  expect_on_watch(*flight, true);
  if (pod.node_name == flight->args.node) {
    succeed(flight);
  } else {
    ++counts_.refused;
    give_back(flight, "it was bound to node " + pod.node_name + " by somebody else");
  }
}

void Binder::succeed(const FlightPtr& flight) {
  ++counts_.bound;
  flight->hold.commit();
  expect_on_watch(*flight, false);
  // What the books hold, not what was chosen: a pod that somebody else bound there has a record of
  // its own.
  const std::optional<alloc::PodHolding> holding = books_.ledger().holding(flight->args.uid);
  const std::string gpus =
      holding ? in_words(*holding, books_.ledger().gpus(holding->node), books_.unit()) : "its GPUs";
  const auto took = std::chrono::duration<double, std::milli>(client_.clock().now() - flight->began).count();
  log::info("bind", {{"pod", flight->pod()},
                     {"node", flight->args.node},
                     {"gpus", gpus},
                     {"took_ms", fmt::format("{:.1f}", took)}});
  events_.record(kube::EventNote::about_pod(flight->args.pod_namespace, flight->args.pod, flight->args.uid)
                     .as_normal("GpuAssigned", fmt::format("Gets {} on node {}", gpus, flight->args.node)));
  answer(*flight, "");
  end(flight);
}

void Binder::expect_on_watch(const Flight& flight, bool by_get) {
  const std::optional<alloc::PodHolding> holding = books_.ledger().holding(flight.args.uid);
  if (holding && (by_get || !holding->bound)) {
    unseen_.try_emplace(flight.args.uid, Unseen{.pod_namespace = flight.args.pod_namespace,
                                                .pod = flight.args.pod,
                                                .since = client_.clock().now(),
                                                .by_get = by_get});
  }
}

void Binder::look_after_unseen() {
  if (unseen_call_.active()) {
    return;
  }
  std::erase_if(unseen_, [this](const UnseenPods::value_type& one) {
    const std::optional<alloc::PodHolding> holding = books_.ledger().holding(one.first);
    return !holding || (holding->bound && !one.second.by_get);
  });
  const Clock::Steady long_ago = client_.clock().now() - options_.unseen_for;
  const auto due =
      std::ranges::find_if(unseen_, [&](const auto& one) { return one.second.since <= long_ago; });
  if (due == unseen_.end()) {
    return;
  }
  kube::Request request = kube::get_request(kube::pod_path(due->second.pod_namespace, due->second.pod));
  request.deadline = options_.timeout;
  unseen_call_ = client_.send(std::move(request), [this, uid = due->first](Result<kube::Reply> reply) {
    judge_unseen(uid, std::move(reply));
  });
}

// One that is still there is the watch's affair from now on; only what is certainly over is taken
// from the reply.
void Binder::judge_unseen(const std::string& uid, Result<kube::Reply> reply) {
  alloc::PodSpec pod;
  const bool gone = !reply && reply.error().code() == ErrorCode::kNotFound;
  if (!gone && (!reply || !reader_.pod(reply->body.view(), pod))) {
    if (const auto found = unseen_.find(uid); found != unseen_.end()) {
      found->second.since = client_.clock().now();
    }
    return;
  }
  if (gone || pod.uid != uid || !alloc::occupies(pod)) {
    log::warn("a pod ended unseen by the watch; its GPUs are free again", {{"uid", uid}});
    books_.forget_pod(uid);
  }
  unseen_.erase(uid);
  unseen_call_ = {};
  look_after_unseen();
}

void Binder::give_back(const FlightPtr& flight, const std::string& why) {
  flight->hold.release();
  log::warn("bind failed", {{"pod", flight->pod()}, {"node", flight->args.node}, {"why", why}});
  tell_failure(*flight, why);
  answer(*flight, fmt::format("pod {}: bind to node {}: {}", flight->pod(), flight->args.node, why));
  end(flight);
}

void Binder::tell_failure(const Flight& flight, const std::string& why) {
  events_.record(
      kube::EventNote::about_pod(flight.args.pod_namespace, flight.args.pod, flight.args.uid)
          .as_warning("GpuBindFailed", fmt::format("Not bound to node {}: {}", flight.args.node, why)));
}

void Binder::answer(Flight& flight, const std::string& error) {
  for (const Done& done : std::exchange(flight.callers, {})) {
    done(error);
  }
}

void Binder::end(const FlightPtr& flight) {
  flight->patience.cancel();
  flight->timer.cancel();
  flights_.erase(flight->args.uid);
}

}  // namespace tessera::extender
