#include "extender/binder.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "alloc/original_record.h"
#include "base/log.h"
#include "kube/request.h"

namespace tessera::extender {

// One bind, from the call until its outcome is known.
struct Binder::Flight {
  BindArgs args;
  Clock::Steady began{};
  std::vector<Done> callers;
  bool repeated = false;  // the ledger already had the pod as bound
  alloc::Hold hold;
  std::string unsure;       // why the outcome of the write is not known; else empty
  int unbound_replies = 0;  // responses since then that showed the pod unbound
  kube::Call call;
  http::Timer timer;         // sends the next GET
  http::Timer answer_timer;  // answers the callers if the outcome is still not known

  [[nodiscard]] std::string pod() const { return args.namespace_name + "/" + args.pod; }
  [[nodiscard]] kube::EventNote note() const {
    return kube::EventNote::about_pod(args.namespace_name, args.pod, args.uid);
  }
};

namespace {

// Interval at which early binds are tried again. They wait only for a moment.
constexpr std::chrono::milliseconds kEarlyRetry{20};

}  // namespace

Binder::Binder(const Context& context, BindPermission& permission, BinderOptions options)
    : client_(context.client),
      state_(context.state),
      events_(context.events),
      metrics_(context.metrics),
      permission_(permission),
      options_(options),
      reader_(state_.names(), state_.node_index()),
      unseen_(client_, state_, reader_, {.overdue = options.unseen_for, .timeout = options.timeout}) {}

Binder::~Binder() {
  // A callback owns its flight, and the flight owns the call with that callback. Break this cycle.
  for (auto& [uid, flight] : flights_) {
    flight->call = {};
    flight->timer.cancel();
    flight->answer_timer.cancel();
    // A callback that is already queued keeps the flight until the loop ends, but a hold must not
    // outlive its ledger.
    flight->hold.release();
  }
}

bool Binder::may_bind_soon() {
  return permission_.time_left() <= std::chrono::milliseconds(0) && permission_.starts_soon();
}

void Binder::bind(const BindArgs& args, Done done) {
  if (early_.size() >= options_.most_at_once || !may_bind_soon()) {
    begin(args, std::move(done));
    return;
  }
  early_.push_back({args, std::move(done), client_.clock().now() + options_.early_for});
  if (!early_timer_.pending()) {
    early_timer_ = client_.loop().after(kEarlyRetry, [this] { retry_early(); });
  }
}

void Binder::retry_early() {
  for (Early& early : std::exchange(early_, {})) {
    if (may_bind_soon() && client_.clock().now() < early.until) {
      early_.push_back(std::move(early));
    } else {
      begin(early.args, std::move(early.done));
    }
  }
  if (!early_.empty()) {
    early_timer_ = client_.loop().after(kEarlyRetry, [this] { retry_early(); });
  }
}

void Binder::begin(const BindArgs& args, Done done) {
  if (permission_.time_left() <= std::chrono::milliseconds(0)) {
    ++counts_.not_leading;
    done(
        "this tessera-extender does not lead, or has just started to lead and still lists the pods; try "
        "again in a few seconds");
    return;
  }
  if (const auto found = flights_.find(args.uid); found != flights_.end()) {
    ++counts_.repeated;
    if (found->second->args.node == args.node) {
      found->second->callers.push_back(std::move(done));
      if (!found->second->answer_timer.pending()) {
        answer_in_time(found->second);
      }
    } else {
      done(fmt::format("pod {} is being bound to node {}", found->second->pod(), found->second->args.node));
    }
    return;
  }
  if (flights_.size() >= options_.most_at_once) {
    ++counts_.refused;
    done(fmt::format("{} binds are already in flight; try again", flights_.size()));
    return;
  }
  auto flight = std::make_shared<Flight>();
  flight->args = args;
  flight->began = client_.clock().now();
  flight->callers.push_back(std::move(done));
  flight->repeated = state_.ledger().holding(args.uid).has_value();
  counts_.repeated += flight->repeated ? 1 : 0;
  flights_.emplace(args.uid, flight);
  if (const WaitingPod* pod = state_.find_waiting(args.uid); pod != nullptr && !flight->repeated) {
    decide(flight, *pod);
  } else {
    fetch_pod(flight);
  }
}

// Fetches a pod that our watch has not shown yet, because kube-scheduler's watch was faster, or that
// is bound according to the ledger.
void Binder::fetch_pod(const FlightPtr& flight) {
  kube::Request request = kube::get_request(kube::pod_path(flight->args.namespace_name, flight->args.pod));
  request.deadline = options_.timeout / 2;
  flight->call = client_.send(std::move(request), [this, flight](Result<kube::Reply> reply) {
    handle_pod(flight, std::move(reply));
  });
}

void Binder::handle_pod(const FlightPtr& flight, Result<kube::Reply> reply) {
  if (flight->repeated) {
    handle_repeated(flight, std::move(reply));
    return;
  }
  if (!reply) {
    ++counts_.refused;
    fail_bind(flight, reply.error().text());
    return;
  }
  alloc::PodSpec pod;
  if (Status status = reader_.pod(reply->body.view(), pod); !status) {
    ++counts_.invalid;
    fail_bind(flight, status.error().text());
  } else if (pod.uid != flight->args.uid) {
    ++counts_.refused;
    fail_bind(flight, fmt::format("another pod has its name now (UID {})", pod.uid));
  } else if (!pod.node_name.empty()) {
    state_.keep_pod(pod, alloc::PodSource::kGet);
    if (pod.node_name == flight->args.node) {
      succeed(flight);
    } else {
      unseen_.add(flight->args);
      ++counts_.refused;
      fail_bind(flight, "it is already bound to node " + pod.node_name);
    }
  } else {
    decide(flight, state_.waiting_pod(pod));
  }
}

// kube-scheduler asks only for pods that it sees unbound. Usually its watch is late, or the response
// to its first call was lost. But after a restore of etcd, a pod that was bound after the backup is
// unbound again.
void Binder::handle_repeated(const FlightPtr& flight, Result<kube::Reply> reply) {
  alloc::PodSpec pod;
  const Status read = reply ? reader_.pod(reply->body.view(), pod) : Status(fail(reply.error()));
  if (read && pod.uid == flight->args.uid && pod.node_name.empty()) {
    log::warn("a bound pod is not bound any more; binding it again", {{"pod", flight->pod()}});
    state_.ledger().remove_pod(pod.uid);
    decide(flight, state_.waiting_pod(pod));
    return;
  }
  std::string error;
  if (!read) {
    error = fmt::format("cannot find out whether pod {} is bound: {}", flight->pod(), read.error().text());
  } else if (pod.uid != flight->args.uid) {
    error = fmt::format("another pod has the name of pod {} now (UID {})", flight->pod(), pod.uid);
  } else if (pod.node_name != flight->args.node) {
    error = fmt::format("pod {} is already bound to node {}", flight->pod(), pod.node_name);
  }
  answer(*flight, error);
  end(flight);
}

void Binder::decide(const FlightPtr& flight, const WaitingPod& pod) {
  Result<kube::Request> request = reserve(*flight, pod);
  metrics_.observe_bind_decision(client_.clock().now() - flight->began);
  if (!request) {
    ++(request.error().code() == ErrorCode::kInvalid ? counts_.invalid : counts_.no_room);
    fail_bind(flight, request.error().text());
    return;
  }
  // Get the time left only now: if the process was stopped since the call, it may no longer lead.
  const auto spent =
      std::chrono::duration_cast<std::chrono::milliseconds>(client_.clock().now() - flight->began);
  request->deadline = std::min(options_.timeout - spent, permission_.time_left());
  if (request->deadline <= std::chrono::milliseconds(0)) {
    ++counts_.not_leading;
    fail_bind(flight, "no time is left to bind it before another tessera-extender may lead");
    return;
  }
  answer_in_time(flight);
  ++writes_;
  flight->call = client_.send(std::move(*request), [this, flight](Result<kube::Reply> reply) {
    --writes_;
    handle_write(flight, std::move(reply));
    if (writes_ == 0 && after_writes_) {
      std::exchange(after_writes_, nullptr)();
    }
  });
}

bool Binder::binds_to(std::string_view node) const {
  return std::ranges::any_of(flights_, [&](const auto& entry) { return entry.second->args.node == node; });
}

void Binder::after_writes(std::function<void()> done) {
  if (writes_ == 0) {
    done();
  } else {
    after_writes_ = std::move(done);
  }
}

void Binder::answer_in_time(const FlightPtr& flight) {
  flight->answer_timer = client_.loop().after(options_.answer_within, [this, weak = std::weak_ptr(flight)] {
    if (const FlightPtr late = weak.lock()) {
      answer(*late,
             fmt::format("the outcome of the bind to {} is not known yet ({}); its GPUs stay reserved until "
                         "the API server answers",
                         late->args.node, late->unsure.empty() ? "no response" : late->unsure));
    }
  });
}

Result<kube::Request> Binder::reserve(Flight& flight, const WaitingPod& pod) {
  const alloc::Request& request = TRY(pod.request);
  alloc::Ledger& ledger = state_.ledger();
  const std::optional<alloc::NodeId> node = ledger.find_node(flight.args.node);
  if (!node) {
    return fail(ErrorCode::kExhausted, fmt::format("node {} is not known to Tessera", flight.args.node));
  }
  const alloc::Choice choice = TRY(state_.placer().choose(request, *node));
  flight.hold = TRY(ledger.reserve(pod.key, request, choice));

  // Device plugins of the original serve pods in the order of their assume times, so each bind
  // needs a unique one.
  const auto wall =
      std::chrono::duration_cast<std::chrono::nanoseconds>(client_.clock().wall().time_since_epoch());
  last_assume_time_ns_ = std::max<std::int64_t>(last_assume_time_ns_ + 1, wall.count());
  const std::vector<alloc::GpuName> gpus = ledger.gpu_names(*node);
  alloc::Annotations annotations = TRY(alloc::binding_annotations(
      request.gpus, choice.record, gpus,
      {.assume_time_ns = last_assume_time_ns_, .has_agent = !ledger.states().original(*node).any()}));
  alloc::empty_stale_records(pod.record_keys, annotations);
  return kube::bind_request({.namespace_name = flight.args.namespace_name,
                             .pod = flight.args.pod,
                             .uid = flight.args.uid,
                             .node = flight.args.node,
                             .annotations = {annotations.begin(), annotations.end()}});
}

void Binder::handle_write(const FlightPtr& flight, Result<kube::Reply> reply) {
  if (reply) {
    succeed(flight);
    return;
  }
  switch (reply.error().code()) {
    case ErrorCode::kTimeout:
      ++counts_.unknown;
      log::warn("response to a bind lost",
                {{"pod", flight->pod()}, {"node", flight->args.node}, {"error", reply.error()}});
      [[fallthrough]];
    // The pod is already bound, perhaps by an earlier write of ours, or it is being deleted, or
    // another pod has its name now.
    case ErrorCode::kConflict:
      flight->unsure = reply.error().text();
      flight->unbound_replies = reply.error().code() == ErrorCode::kConflict ? 1 : 0;
      ask_outcome(flight);
      return;
    default:
      ++counts_.refused;
      fail_bind(flight, reply.error().text());
  }
}

void Binder::ask_outcome(const FlightPtr& flight) {
  kube::Request request = kube::get_request(kube::pod_path(flight->args.namespace_name, flight->args.pod));
  request.deadline = options_.timeout;
  flight->call = client_.send(std::move(request), [this, flight](Result<kube::Reply> reply) {
    handle_outcome(flight, std::move(reply));
  });
}

void Binder::ask_outcome_later(const FlightPtr& flight) {
  flight->timer = client_.loop().after(options_.ask_again, [this, flight] { ask_outcome(flight); });
}

void Binder::handle_outcome(const FlightPtr& flight, Result<kube::Reply> reply) {
  if (!reply && reply.error().code() == ErrorCode::kNotFound) {
    ++counts_.refused;
    fail_bind(flight, "the pod is gone");
    return;
  }
  alloc::PodSpec pod;
  if (!reply || !reader_.pod(reply->body.view(), pod)) {
    ask_outcome_later(flight);
    return;
  }
  if (pod.uid != flight->args.uid) {
    ++counts_.refused;
    fail_bind(flight, "the pod is gone, and another one has its name");
    return;
  }
  if (pod.node_name.empty()) {
    // The API server abandons a write at its deadline, but a write that was about to complete may
    // become visible a moment later. So one GET is not enough. A conflict counts as the first one.
    if (++flight->unbound_replies < 2) {
      ask_outcome_later(flight);
      return;
    }
    ++counts_.refused;
    fail_bind(flight, flight->unsure);
    return;
  }
  // The pod is bound, so the record on the pod counts, not our reservation.
  state_.keep_pod(pod, alloc::PodSource::kGet);
  if (pod.node_name == flight->args.node) {
    succeed(flight);
  } else {
    unseen_.add(flight->args);
    ++counts_.refused;
    fail_bind(flight, "another client bound it to node " + pod.node_name);
  }
}

void Binder::succeed(const FlightPtr& flight) {
  ++counts_.bound;
  flight->hold.commit();
  unseen_.add(flight->args);
  // Report the GPUs in the ledger, not our choice: if another client bound the pod, its record may
  // name other GPUs.
  const std::optional<alloc::PodHolding> holding = state_.ledger().holding(flight->args.uid);
  const std::string gpus = holding ? state_.ledger().holding_text(*holding) : "its GPUs";
  const auto took = std::chrono::duration<double, std::milli>(client_.clock().now() - flight->began).count();
  log::info("bound", {{"pod", flight->pod()},
                      {"node", flight->args.node},
                      {"gpus", gpus},
                      {"took_ms", fmt::format("{:.1f}", took)}});
  events_.record(
      flight->note().as_normal("GpuAssigned", fmt::format("Gets {} on node {}", gpus, flight->args.node)));
  answer(*flight, "");
  end(flight);
}

void Binder::fail_bind(const FlightPtr& flight, const std::string& reason) {
  flight->hold.release();
  log::warn("bind failed", {{"pod", flight->pod()}, {"node", flight->args.node}, {"reason", reason}});
  events_.record(flight->note().as_warning(
      "GpuBindFailed", fmt::format("Not bound to node {}: {}", flight->args.node, reason)));
  answer(*flight, fmt::format("pod {}: bind to node {}: {}", flight->pod(), flight->args.node, reason));
  end(flight);
}

void Binder::answer(Flight& flight, const std::string& error) {
  for (const Done& done : std::exchange(flight.callers, {})) {
    done(error);
  }
}

void Binder::end(const FlightPtr& flight) {
  flight->answer_timer.cancel();
  flight->timer.cancel();
  flights_.erase(flight->args.uid);
}

}  // namespace tessera::extender
