#include "extender/extender.h"

#include <fmt/core.h>

#include <optional>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "base/version.h"
#include "extender/agent_nodes.h"
#include "extender/agent_watch.h"
#include "extender/binder.h"
#include "extender/cluster_state.h"
#include "extender/context.h"
#include "extender/drain_ack.h"
#include "extender/leadership.h"
#include "extender/metrics.h"
#include "extender/problem_news.h"
#include "extender/readings.h"
#include "extender/service.h"
#include "extender/watch_sinks.h"
#include "http/server.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/reflector.h"
#include "kube/request.h"

namespace tessera::extender {

namespace {

// Interval of the periodic work.
constexpr std::chrono::seconds kRound{5};
// Added to the bind timeout when the server drains, so that responses can still be sent.
constexpr std::chrono::seconds kDrain{2};
// Memory for request bodies in addition to one of the largest size.
constexpr std::uint64_t kOtherBodies = 32U << 20U;
constexpr std::uint64_t kHealthBody = 64U << 10U;
// After a watch has failed for this long, the ledger is too old for decisions.
constexpr std::chrono::minutes kMaxSilence{5};
// The namespace of the original's ConfigMaps unhealthy-gpu-NODE.
constexpr std::string_view kUnhealthyNamespace = "kube-system";
// The leader label is written again every minute, in case another client removed it.
constexpr unsigned kLabelRounds = 12;

std::vector<alloc::TypicalRequest> typical_requests(const Config& config) {
  std::vector<alloc::TypicalRequest> all;
  for (const TypicalPodSpec& pod : config.typical_pods) {
    alloc::TypicalRequest request;
    if (pod.units > 0) {
      request.shape.share = {.units = pod.units, .core_percent = 0, .gpus = pod.gpus};
    } else {
      request.shape.whole = pod.gpus;
    }
    request.shape.node.cpu_milli = pod.cpu_milli;
    request.models = pod.models;
    request.count = pod.count;
    all.push_back(std::move(request));
  }
  return all;
}

ClusterState::Options state_options(const Config& config) {
  return {.ledger = {.unit = config.unit, .names = alloc::ResourceNames(config.resources)},
          .placer = {.share_policy = config.share_policy,
                     .whole_policy = config.whole_policy,
                     .static_sets = config.static_sets,
                     .typical = typical_requests(config)}};
}

kube::EventRecorderOptions recorder_options(const OwnPod& own_pod) {
  kube::EventRecorderOptions options;
  options.aggregator.component = "tessera-extender";
  options.aggregator.instance = own_pod.name.empty() ? "tessera-extender" : own_pod.name;
  options.pace = std::chrono::milliseconds(20);
  return options;
}

}  // namespace

struct Extender::Impl {
  Impl(http::EventLoop& loop_, Config config_, kube::Client client_, OwnPod own_pod)
      : loop(loop_),
        config(std::move(config_)),
        client(std::move(client_)),
        state(state_options(config)),
        recorder(client, recorder_options(own_pod)),
        context{.client = client, .state = state, .events = recorder, .metrics = metrics},
        pod_sink(state, [this] { log_ready(); }),
        node_sink(state, [this] { log_ready(); }),
        budget_sink(state, [this] { state.budgets().set_known(); }),
        unhealthy_sink(state, [this] { log_ready(); }),
        nodes(client, {.path = kube::node_path("")}, node_sink),
        pods(client, {.path = kube::pod_path("", "")}, pod_sink),
        budgets(client, {.path = kube::disruption_budgets_path()}, budget_sink),
        unhealthy(client, {.path = kube::config_map_path(kUnhealthyNamespace, "")}, unhealthy_sink),
        agents(context, {.namespace_name = own_pod.namespace_name, .selector = config.agent_selector}),
        agent_nodes(context),
        leadership(client, config, std::move(own_pod), pods),
        binder(context, leadership, {.timeout = config.bind_timeout, .most_at_once = config.binds_at_once}),
        drain_acks(context, binder, [this] { return leadership.may_bind() && not_ready().empty(); }),
        service(
            context, binder,
            {.not_ready = [this] { return not_ready(); },
             .readings = [this] { return readings(); },
             .after = [this](std::chrono::milliseconds delay,
                             std::function<void()> task) { return loop.after(delay, std::move(task)); }}) {
    service.set_score_step(config.score_step);
    // The original's lists of unhealthy GPUs are not needed before a node has its device plugin.
    state.on_original_nodes([this] {
      if (!std::exchange(watches_unhealthy, true)) {
        unhealthy.start();
      }
    });
  }

  Status serve();
  [[nodiscard]] http::ServerOptions server_options(const std::string& address, std::uint16_t port);

  [[nodiscard]] std::string not_ready() const;
  [[nodiscard]] std::string not_synced() const;
  [[nodiscard]] std::vector<daemon::Reading> readings() const;
  void log_ready();
  void run_round();
  void report_problems();

  http::EventLoop& loop;
  Config config;
  Metrics metrics;
  kube::Client client;
  ClusterState state;
  kube::EventRecorder recorder;
  const Context context;
  ProblemNews news;
  PodSink pod_sink;
  NodeSink node_sink;
  BudgetSink budget_sink;
  UnhealthySink unhealthy_sink;
  kube::Reflector nodes;
  kube::Reflector pods;
  kube::Reflector budgets;    // optional: while it fails, preempt assumes the most violations
  kube::Reflector unhealthy;  // starts when a node has the original's device plugin
  bool watches_unhealthy = false;
  AgentWatch agents;       // starts if config.agent_selector is set
  AgentNodes agent_nodes;  // starts with `agents`
  Leadership leadership;
  Binder binder;
  DrainAck drain_acks;
  Service service;
  std::optional<http::Server> server;
  std::optional<http::Server> health_server;
  http::Timer round_timer;
  Clock::Steady began{};
  bool was_ready = false;
  unsigned rounds = 0;
};

http::ServerOptions Extender::Impl::server_options(const std::string& address, std::uint16_t port) {
  http::ServerOptions options;
  options.address = address;
  options.port = port;
  options.max_body_bytes = config.max_body_bytes;
  // kube-scheduler sends one large body at a time.
  options.max_bodies_bytes = config.max_body_bytes + kOtherBodies;
  options.max_connections = config.max_connections;
  options.on_access = [this](const http::Access& access) { metrics.count(access); };
  return options;
}

Status Extender::Impl::serve() {
  http::ServerOptions options = server_options(config.address, config.port);
  if (!config.tls_certificate.empty()) {
    options.tls.emplace();
    options.tls->identity.certificate_file = config.tls_certificate;
    options.tls->identity.key_file = config.tls_key;
    options.tls->client_ca_file = config.tls_client_ca;
  }
  // A connection through the Service stays with its pod even if that pod no longer leads. If it
  // stayed open, kube-scheduler would get "does not lead" from this pod until it is idle.
  options.close_after_response = [this] { return leadership.follows(); };
  server.emplace(
      TRY(http::Server::create(loop, std::move(options), [this](http::Request& request, http::Reply reply) {
        service.handle(request, std::move(reply));
      })));
  if (config.health_port != 0) {
    http::ServerOptions health = server_options(config.health_address, config.health_port);
    // All clients can reach this port, and none of its routes needs a body.
    health.max_body_bytes = kHealthBody;
    health_server.emplace(
        TRY(http::Server::create(loop, std::move(health), [this](http::Request& request, http::Reply reply) {
          service.handle_health(request, std::move(reply));
        })));
  }
  return {};
}

std::string Extender::Impl::not_synced() const {
  if (nodes.synced() && pods.synced()) {
    return "";
  }
  std::string missing = !nodes.synced() && !pods.synced() ? "nodes and pods are"
                        : !nodes.synced()                 ? "nodes are"
                                                          : "pods are";
  missing += " still being listed";
  for (const kube::Reflector* watch : {&nodes, &pods}) {
    if (watch->problem()) {
      return missing + ": " + watch->problem()->text();
    }
  }
  return missing;
}

std::string Extender::Impl::not_ready() const {
  if (std::string missing = not_synced(); !missing.empty()) {
    return missing;
  }
  for (const auto& [what, watch] : {std::pair{"nodes", &nodes}, std::pair{"pods", &pods}}) {
    const auto silent =
        std::chrono::duration_cast<std::chrono::seconds>(client.clock().now() - watch->last_heard());
    if (watch->problem() && silent > kMaxSilence) {
      return fmt::format("the watch on {} has failed for {} s: {}", what, silent.count(),
                         watch->problem()->text());
    }
  }
  // Without permission to read the Lease, this extender can never bind, so it is not ready.
  if (std::string missing = leadership.not_known(); !missing.empty()) {
    return missing;
  }
  // Without permission to read these lists, the extender ignores them.
  const bool lists_unhealthy = watches_unhealthy && !unhealthy.synced() && !unhealthy.problem();
  return lists_unhealthy ? "lists of unhealthy GPUs are still being read" : "";
}

void Extender::Impl::log_ready() {
  if (!was_ready && not_ready().empty()) {
    was_ready = true;
    log::info(
        "ready",
        {{"nodes", nodes.objects()},
         {"pods", pods.objects()},
         {"took_ms",
          std::chrono::duration_cast<std::chrono::milliseconds>(client.clock().now() - began).count()}});
  }
}

// Does the periodic work and schedules the next round.
void Extender::Impl::run_round() {
  log_ready();
  state.learn_typical_pods();
  for (const std::string& node : state.end_round()) {
    log::warn("the node's GPU topology changes too often; its latest inventory was applied late",
              {{"node", node}});
  }
  binder.check_unseen();
  if (++rounds % kLabelRounds == 0) {
    leadership.refresh_label();
  }
  report_problems();
  round_timer = loop.after(kRound, [this] { run_round(); });
}

void Extender::Impl::report_problems() {
  // Only the leader reports. A replica that is not ready knows only half of the cluster and would
  // report problems that do not exist.
  if (!leadership.leads() || !not_ready().empty()) {
    return;
  }
  for (const alloc::Problem& problem : news.take(state.ledger(), client.clock().now())) {
    log::warn("GPU state inconsistent", {{"kind", alloc::to_string(problem.kind)}, {"reason", problem.text}});
    const std::size_t slash = problem.pod.find('/');
    kube::EventNote note = slash == std::string::npos
                               ? kube::EventNote::about_node(problem.node)
                               : kube::EventNote::about_pod(problem.pod.substr(0, slash),
                                                            problem.pod.substr(slash + 1), problem.uid);
    recorder.record(std::move(note).as_warning(std::string(event_reason(problem.kind)), problem.text));
  }
}

std::vector<daemon::Reading> Extender::Impl::readings() const {
  daemon::Readings all;
  all.gauge("tessera_extender_ready", "1 when nodes and pods have been read", not_ready().empty() ? 1 : 0);
  all.gauge("tessera_extender_leading", "1 when this replica may bind", leadership.may_bind() ? 1 : 0);
  if (server) {
    all.add_server("tessera_extender_connections", server->stats());
  }
  add_ledger_readings(state, all);
  add_bind_readings(binder, all);
  add_watch_readings("nodes", nodes, all);
  add_watch_readings("pods", pods, all);
  add_watch_readings("disruption_budgets", budgets, all);
  if (watches_unhealthy) {
    add_watch_readings("unhealthy_gpus", unhealthy, all);
  }
  if (!config.agent_selector.empty()) {
    add_watch_readings("agents", agents.reflector(), all);
    add_watch_readings("agent_nodes", agent_nodes.reflector(), all);
    all.gauge("tessera_extender_agent_missing_nodes",
              "Nodes with the label gpushare=true or an agent pod, but without an agent that is ready",
              static_cast<double>(agents.missing_nodes(agent_nodes.names())));
  }
  if (leadership.lease_watch() != nullptr) {
    add_watch_readings("scheduler_lease", *leadership.lease_watch(), all);
  }
  all.add_events("tessera_extender_events_dropped_total", recorder.counts());
  return all.take();
}

Extender::Extender(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Extender::~Extender() = default;

Result<std::unique_ptr<Extender>> Extender::create(http::EventLoop& loop, Config config,
                                                   kube::ClusterAccess access, OwnPod own_pod) {
  kube::ClientOptions options;
  options.user_agent = fmt::format("tessera-extender/{}", version());
  kube::Client client = TRY(kube::Client::create(loop, std::move(access), options));
  auto impl = std::make_unique<Impl>(loop, std::move(config), std::move(client), std::move(own_pod));
  TRY(impl->serve());
  TRY(impl->leadership.prepare());
  return std::unique_ptr<Extender>(new Extender(std::move(impl)));
}

void Extender::start() {
  Impl& impl = *impl_;
  impl.began = impl.client.clock().now();
  log::info("starting", {{"version", version()},
                         {"listen", fmt::format("{}:{}", impl.config.address, port())},
                         {"attach", impl.config.attach == Attach::kSidecar ? "sidecar" : "service"},
                         {"api", impl.client.server()},
                         {"unit", impl.config.unit.text()}});
  impl.nodes.start();
  impl.pods.start();
  impl.budgets.start();
  impl.leadership.start();
  if (!impl.config.agent_selector.empty()) {
    impl.agents.start();
    impl.agent_nodes.start();
  }
  impl.drain_acks.start();
  impl.run_round();
}

void Extender::reload(const Config& next) {
  Impl& impl = *impl_;
  const std::vector<std::string> need_restart = apply_reloadable(next, impl.config);
  impl.state.set_policies(state_options(impl.config).placer);
  impl.service.set_score_step(impl.config.score_step);
  if (const Status status = log::configure(impl.config.log); !status) {
    log::error("log settings not applied", {{"error", status.error()}});
  }
  log::info("configuration reloaded", {{"shared", alloc::to_string(impl.config.share_policy)},
                                       {"whole", alloc::to_string(impl.config.whole_policy)}});
  if (!need_restart.empty()) {
    log::warn("changed settings need a restart", {{"settings", join_words(need_restart)}});
  }
}

void Extender::stop(std::function<void()> done) {
  Impl& impl = *impl_;
  impl.round_timer.cancel();
  impl.server->drain(impl.config.bind_timeout + kDrain, [&impl, done = std::move(done)] {
    // A write may still be in flight although its caller was answered or has disconnected. The
    // Lease must not be released before it ends.
    impl.binder.after_writes([&impl, done] { impl.leadership.release(done); });
  });
}

std::uint16_t Extender::port() const {
  return impl_->server->port();
}

bool Extender::ready() const {
  return impl_->not_ready().empty();
}

}  // namespace tessera::extender
