#include "extender/service.h"

#include <fmt/core.h>

#include <array>
#include <memory>
#include <utility>

#include "base/log.h"
#include "extender/inspect.h"

namespace tessera::extender {

namespace {

// What stands after `prefix` and a slash; nothing when the path is another one.
std::optional<std::string_view> below(std::string_view path, std::string_view prefix) {
  if (!path.starts_with(prefix) || path.size() <= prefix.size() || path[prefix.size()] != '/') {
    return std::nullopt;
  }
  return path.substr(prefix.size() + 1);
}

// The node of "inspect" or "inspect/NODE".
std::optional<std::string_view> inspected(std::string_view verb) {
  if (verb == "inspect" || verb == "inspect/") {
    return "";
  }
  return below(verb, "inspect");
}

}  // namespace

Service::Service(Books& books, Binder& binder, Metrics& metrics, Sources sources)
    : books_(books),
      binder_(binder),
      metrics_(metrics),
      sources_(std::move(sources)),
      health_({.not_ready = sources_.not_ready,
               .metrics = [this] { return metrics_.text(sources_.readings()); }}),
      reader_(books.names(), books.node_index()),
      decisions_(books) {
  binder_.on_decided([this](std::chrono::nanoseconds took) { metrics_.observe_bind_decision(took); });
}

void Service::handle_health(http::Request& request, http::Reply reply) {
  if (!health_.handle(request, reply)) {
    reply.send_error(404, "there is nothing at this path");
  }
}

void Service::handle(http::Request& request, http::Reply reply) {
  using Inspect = std::string (*)(const Books&, std::string_view);
  // Of the GPU share original and of the two generations of the topology scheduler.
  static constexpr std::array<std::pair<std::string_view, Inspect>, 3> kPrefixes{
      {{"/gpushare-scheduler", inspect_shares},
       {"/gputopology-scheduler", inspect_topology},
       {"/gpu-scheduler-extender", inspect_topology}}};
  for (const auto& [prefix, inspect] : kPrefixes) {
    const auto rest = below(request.path(), prefix);
    if (!rest) {
      continue;
    }
    const auto node = inspected(*rest);
    if (!node) {
      verb(*rest, request, std::move(reply));
      return;
    }
    request.set_route("inspect");
    if (daemon::is_get(request, reply)) {
      reply.send({.body = inspect(books_, *node)});
    }
    return;
  }
  handle_health(request, std::move(reply));
}

void Service::verb(std::string_view name, http::Request& request, http::Reply reply) {
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
        reply.send_error(405, "kube-scheduler sends this as POST");
        return;
      }
      (this->*known.answer)(request, std::move(reply));
      return;
    }
  }
  reply.send_error(404, "there are filter, filter/best, prioritize, sort, preempt, bind and inspect");
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
    metrics_.count_invalid_request();
    log::warn("bad body", {{"route", "filter"}, {"peer", request.peer()}, {"why", args.error()}});
    write_filter_error(args.error().text(), body);
    reply.send({.body = std::move(body)});
    return;
  }
  const Decisions::FilterSummary summary = decide(**args, best, body);
  // A node that is too small stays too small.
  if (summary.fit == 0 && summary.may_pass > 0 && look_again(request, reply, best)) {
    return;
  }
  answer_filter(**args, summary, std::move(body), std::move(reply));
}

bool Service::look_again(http::Request& request, http::Reply& reply, bool best) {
  const auto now = std::chrono::steady_clock::now();
  if (!sources_.later || second_look_.pending() || now - looked_at_ < kSecondLooksApart) {
    return false;
  }
  looked_at_ = now;
  metrics_.count_filter_retry();
  auto kept = std::make_shared<json::PaddedBuffer>(request.body().text());
  auto to = std::make_shared<http::Reply>(std::move(reply));
  second_look_ = sources_.later(kSecondLookAfter, [this, kept, to, best] {
    const Result<const NodeArgs*> args = reader_.node_args(kept->view());
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
  metrics_.count_filter(summary.fit, summary.failed, summary.hopeless);
  const std::size_t nodes = args.size();
  if (summary.fit == 0 && nodes > 0) {
    tell_unschedulable(args.pod, summary, nodes);
  }
  if (log::enabled(log::Level::kDebug)) {
    log::debug(
        "filter",
        {{"pod", args.pod.pod_namespace + "/" + args.pod.name}, {"nodes", nodes}, {"fit", summary.fit}});
  }
  reply.send({.body = std::move(body)});
}

void Service::tell_unschedulable(const alloc::PodSpec& pod, const Decisions::FilterSummary& summary,
                                 std::size_t nodes) {
  sources_.events->record(
      kube::EventNote::about_pod(pod.pod_namespace, pod.name, pod.uid)
          .as_warning("GpuUnavailable",
                      fmt::format("None of {} nodes can take it: {}{}{}", nodes, summary.main_reason,
                                  summary.nearest.empty() ? "" : ". Nearest: ", summary.nearest)));
}

void Service::prioritize(http::Request& request, http::Reply reply) {
  std::string body = reply.recycled();
  if (const Result<const NodeArgs*> args = reader_.node_args(request.body())) {
    decisions_.prioritize(**args, score_step_, body);
  } else {
    // There is no place for an error in this answer; kube-scheduler goes on without our scores.
    metrics_.count_invalid_request();
    log::warn("bad body", {{"route", "prioritize"}, {"peer", request.peer()}, {"why", args.error()}});
    body += "[]";
  }
  reply.send({.body = std::move(body)});
}

void Service::preempt(http::Request& request, http::Reply reply) {
  std::string body = reply.recycled();
  if (const std::string missing = sources_.not_ready(); !missing.empty()) {
    // Who holds what is not known yet: nobody is evicted on a guess.
    log::warn("preempt is not answered", {{"why", missing}});
    body += R"({"NodeNameToMetaVictims":{}})";
    reply.send({.body = std::move(body)});
    return;
  }
  if (const Result<PreemptArgs> args = reader_.preempt_args(request.body())) {
    const Decisions::PreemptSummary summary = decisions_.preempt(*args, body);
    log::info("preempt", {{"pod", args->pod.pod_namespace + "/" + args->pod.name},
                          {"proposed_nodes", summary.proposed},
                          {"useful_nodes", summary.kept},
                          {"spared_pods", summary.spared}});
  } else {
    // Nor in this one: nobody is evicted for a body that nobody understands.
    metrics_.count_invalid_request();
    log::warn("bad body", {{"route", "preempt"}, {"peer", request.peer()}, {"why", args.error()}});
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
    metrics_.count_invalid_request();
    log::warn("bad body", {{"route", "bind"}, {"peer", request.peer()}, {"why", args.error()}});
    send(reply, args.error().text());
    return;
  }
  // std::function wants to be copied; the reply cannot be.
  auto shared = std::make_shared<http::Reply>(std::move(reply));
  binder_.bind(*args, [send, shared](const std::string& error) { send(*shared, error); });
}

}  // namespace tessera::extender
