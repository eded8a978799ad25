#include "extender/service.h"

#include <fmt/core.h>

#include <array>
#include <memory>
#include <utility>

#include "alloc/request_advice.h"
#include "base/log.h"
#include "extender/inspect.h"

namespace tessera::extender {

namespace {

// Returns the part of the path after `prefix` and a slash, if the path starts with them.
std::optional<std::string_view> below(std::string_view path, std::string_view prefix) {
  if (!path.starts_with(prefix) || path.size() <= prefix.size() || path[prefix.size()] != '/') {
    return std::nullopt;
  }
  return path.substr(prefix.size() + 1);
}

// Returns NODE if the verb is "inspect/NODE", and "" (all nodes) if it is "inspect".
std::optional<std::string_view> inspected_node(std::string_view verb) {
  if (verb == "inspect" || verb == "inspect/") {
    return "";
  }
  return below(verb, "inspect");
}

}  // namespace

Service::Service(const Context& context, Binder& binder, Sources sources)
    : state_(context.state),
      events_(context.events),
      metrics_(context.metrics),
      binder_(binder),
      sources_(std::move(sources)),
      health_({.not_ready = sources_.not_ready,
               .metrics = [this] { return metrics_.text(sources_.readings()); }}),
      reader_(state_.names(), state_.node_index()),
      decisions_(state_) {}

void Service::handle_health(http::Request& request, http::Reply reply) {
  if (!health_.handle(request, reply)) {
    reply.send_error(404, "unknown path");
  }
}

void Service::handle(http::Request& request, http::Reply reply) {
  using Inspect = std::string (*)(const ClusterState&, std::string_view);
  // The prefixes of the original gpushare and of two versions of the original topology scheduler.
  static constexpr std::array<std::pair<std::string_view, Inspect>, 3> kPrefixes{
      {{"/gpushare-scheduler", inspect_shares},
       {"/gputopology-scheduler", inspect_topology},
       {"/gpu-scheduler-extender", inspect_topology}}};
  for (const auto& [prefix, inspect] : kPrefixes) {
    const auto rest = below(request.path(), prefix);
    if (!rest) {
      continue;
    }
    const auto node = inspected_node(*rest);
    if (!node) {
      handle_verb(*rest, request, std::move(reply));
      return;
    }
    request.set_route("inspect");
    if (daemon::is_get(request, reply)) {
      reply.send({.body = inspect(state_, *node)});
    }
    return;
  }
  handle_health(request, std::move(reply));
}

void Service::handle_verb(std::string_view name, http::Request& request, http::Reply reply) {
  struct Verb {
    std::string_view name;
    std::string_view route;
    void (Service::*answer)(http::Request&, http::Reply);
  };
  static constexpr std::array<Verb, 6> kVerbs{{{"filter", "filter", &Service::filter},
                                               {"filter/best", "filter", &Service::filter_best},
                                               {"prioritize", "prioritize", &Service::prioritize},
                                               {"sort", "prioritize", &Service::prioritize},
                                               {"preempt", "preempt", &Service::preempt},
                                               {"bind", "bind", &Service::bind}}};
  for (const Verb& known : kVerbs) {
    if (name == known.name) {
      request.set_route(known.route);
      if (request.method() != "POST") {
        reply.send_error(405, "use POST");
        return;
      }
      (this->*known.answer)(request, std::move(reply));
      return;
    }
  }
  reply.send_error(404, "unknown verb; use filter, filter/best, prioritize, sort, preempt, bind or inspect");
}

Decisions::FilterSummary Service::decide(const NodeArgs& args, bool best, std::string& body) {
  return best ? decisions_.filter_best(args, score_step_, body) : decisions_.filter(args, body);
}

void Service::filter(http::Request& request, http::Reply reply, bool best) {
  std::string body = reply.recycled();
  if (const std::string missing = sources_.not_ready(); !missing.empty()) {
    write_filter_error("tessera-extender is not ready: " + missing, body);
    reply.send({.body = std::move(body)});
    return;
  }
  const Result<const NodeArgs*> args = reader_.node_args(request.body());
  if (!args) {
    report_invalid("filter", request, args.error());
    write_filter_error(args.error().text(), body);
    reply.send({.body = std::move(body)});
    return;
  }
  const Decisions::FilterSummary summary = decide(**args, best, body);
  // A retry cannot help if all nodes fail for a permanent reason, such as GPUs that are too small.
  if (summary.fit == 0 && summary.may_fit_soon > 0 && retry_later(request, reply, best)) {
    return;
  }
  answer_filter(**args, summary, std::move(body), std::move(reply));
}

bool Service::retry_later(http::Request& request, http::Reply& reply, bool best) {
  const auto now = std::chrono::steady_clock::now();
  if (!sources_.after || retry_timer_.pending() || now - last_retry_ < kRetryInterval) {
    return false;
  }
  last_retry_ = now;
  metrics_.count_filter_retry();
  auto saved = std::make_shared<json::PaddedBuffer>(request.body().text());
  auto to = std::make_shared<http::Reply>(std::move(reply));
  retry_timer_ = sources_.after(kRetryAfter, [this, saved, to, best] {
    const Result<const NodeArgs*> args = reader_.node_args(saved->view());
    std::string body = to->recycled();
    if (args) {
      const Decisions::FilterSummary summary = decide(**args, best, body);
      answer_filter(**args, summary, std::move(body), std::move(*to));
    } else {
      write_filter_error(args.error().text(), body);
      to->send({.body = std::move(body)});
    }
  });
  return true;
}

void Service::answer_filter(const NodeArgs& args, const Decisions::FilterSummary& summary, std::string body,
                            http::Reply reply) {
  metrics_.count_filter(summary.fit, summary.failed, summary.unresolvable);
  if (summary.invalid_request) {
    metrics_.count_refused_pod();
  }
  if (summary.search_ended) {
    metrics_.count_ended_search();
  }
  const std::size_t nodes = args.size();
  record_events(args.pod, summary, nodes);
  if (log::enabled(log::Level::kDebug)) {
    log::debug(
        "nodes filtered",
        {{"pod", args.pod.namespace_name + "/" + args.pod.name}, {"nodes", nodes}, {"fit", summary.fit}});
  }
  reply.send({.body = std::move(body)});
}

void Service::record_events(const alloc::PodSpec& pod, const Decisions::FilterSummary& summary,
                            std::size_t nodes) {
  const auto now = std::chrono::steady_clock::now();
  const auto about_pod = [&] { return kube::EventNote::about_pod(pod.namespace_name, pod.name, pod.uid); };
  if (alloc::mixes_whole_and_shared(pod) && pod_news_.is_mixed_due(pod.uid, now)) {
    if (std::string advice = alloc::mixed_request_advice(pod, state_.names(), state_.unit());
        !advice.empty()) {
      events_.record(about_pod().as_warning("MixedGpuRequest", std::move(advice)));
    }
  }
  if (summary.fit == 0 && nodes > 0 && pod_news_.is_unavailable_due(pod.uid, summary.main_reason, now)) {
    std::string text = fmt::format("0 of {} nodes fit: {}{}{}", nodes, summary.main_reason,
                                   summary.nearest.empty() ? "" : ". Nearest: ", summary.nearest);
    if (pod.annotations.contains(alloc::key::kGpuModel)) {
      const auto request = alloc::Request::of_pod(pod, state_.names());
      const std::string advice = request ? alloc::unknown_model_advice(state_.ledger(), *request) : "";
      text += advice.empty() ? "" : "; " + advice;
    }
    events_.record(about_pod().as_warning("GpuUnavailable", std::move(text)));
  }
}

void Service::report_invalid(std::string_view route, const http::Request& request, const Error& error) {
  metrics_.count_invalid_request();
  log::warn("invalid request body", {{"route", route}, {"peer", request.peer()}, {"error", error}});
}

void Service::prioritize(http::Request& request, http::Reply reply) {
  std::string body = reply.recycled();
  if (const Result<const NodeArgs*> args = reader_.node_args(request.body())) {
    decisions_.prioritize(**args, score_step_, body);
  } else {
    // This response has no field for an error. kube-scheduler continues without our scores.
    report_invalid("prioritize", request, args.error());
    body += "[]";
  }
  reply.send({.body = std::move(body)});
}

void Service::preempt(http::Request& request, http::Reply reply) {
  std::string body = reply.recycled();
  if (const std::string missing = sources_.not_ready(); !missing.empty()) {
    // Evict no pod before all pods and nodes are known.
    log::warn("preemption rejected, not ready", {{"reason", missing}});
    body += R"({"NodeNameToMetaVictims":{}})";
    reply.send({.body = std::move(body)});
    return;
  }
  if (const Result<PreemptArgs> args = reader_.preempt_args(request.body())) {
    const Decisions::PreemptSummary summary = decisions_.preempt(*args, body);
    if (summary.search_ended) {
      metrics_.count_ended_search();
    }
    log::info("preemption answered", {{"pod", args->pod.namespace_name + "/" + args->pod.name},
                                      {"proposed_nodes", summary.proposed},
                                      {"useful_nodes", summary.kept},
                                      {"spared_pods", summary.spared}});
  } else {
    // This response has no field for an error either. If the body cannot be parsed, evict no pod.
    report_invalid("preempt", request, args.error());
    body += R"({"NodeNameToMetaVictims":{}})";
  }
  reply.send({.body = std::move(body)});
}

void Service::bind(http::Request& request, http::Reply reply) {
  const auto send = [](http::Reply& to, const std::string& error) {
    std::string body;
    write_bind_result(error, body);
    to.send({.body = std::move(body)});
  };
  if (const std::string missing = sources_.not_ready(); !missing.empty()) {
    send(reply, "tessera-extender is not ready: " + missing);
    return;
  }
  const Result<BindArgs> args = reader_.bind_args(request.body());
  if (!args) {
    report_invalid("bind", request, args.error());
    send(reply, args.error().text());
    return;
  }
  // The callback is a std::function, which must be copyable. A Reply is not.
  auto shared = std::make_shared<http::Reply>(std::move(reply));
  binder_.bind(*args, [send, shared](const std::string& error) { send(*shared, error); });
}

}  // namespace tessera::extender
