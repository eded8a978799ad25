#include "extender/extender.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "base/version.h"
#include "extender/binder.h"
#include "extender/books.h"
#include "extender/freshness.h"
#include "extender/leader_label.h"
#include "extender/metrics.h"
#include "extender/problem_news.h"
#include "extender/readings.h"
#include "extender/scheduler_lease.h"
#include "extender/service.h"
#include "extender/watch_sinks.h"
#include "http/server.h"
#include "kube/backoff.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/leader_elector.h"
#include "kube/reflector.h"
#include "kube/request.h"

namespace tessera::extender {

namespace {

constexpr std::chrono::seconds kRound{5};
// Beyond the longest bind, for its answer.
constexpr std::chrono::seconds kDrain{2};
constexpr std::uint64_t kOtherBodies = 32U << 20U;
constexpr std::uint64_t kHealthBody = 64U << 10U;
// A watch that has failed for so long makes the books too old to answer from.
constexpr std::chrono::minutes kDeaf{5};
// Where the original looks for ConfigMaps unhealthy-gpu-NODE.
constexpr std::string_view kUnhealthyNamespace = "kube-system";
// Rounds after which the leader's label is written again, in case somebody took it off: every
// minute.
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

Books::Options books_options(const Config& config) {
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

struct Extender::Parts {
  Parts(http::EventLoop& loop_, Config config_, kube::Client client_, OwnPod own_pod_)
      : loop(loop_),
        config(std::move(config_)),
        own_pod(std::move(own_pod_)),
        client(std::move(client_)),
        books(books_options(config)),
        pod_sink(books, [this] { told_synced(); }),
        node_sink(books, [this] { told_synced(); }),
        budget_sink(books, [this] { books.budgets().set_known(); }),
        unhealthy_sink(books, [this] { told_synced(); }),
        nodes(client, {.path = kube::node_path("")}, node_sink),
        pods(client, {.path = kube::pod_path("", "")}, pod_sink),
        budgets(client, {.path = kube::disruption_budgets_path()}, budget_sink),
        unhealthy(client, {.path = kube::config_map_path(kUnhealthyNamespace, "")}, unhealthy_sink),
        freshness(loop, client.clock(), pods),
        label(client, own_pod.namespace_name, own_pod.name),
        recorder(client, recorder_options(own_pod)),
        binder(
            client, books, {.timeout = config.bind_timeout, .most_at_once = config.binds_at_once},
            [this] { return may_act_for(); }, recorder),
        service(
            books, binder, metrics,
            {.not_ready = [this] { return not_ready(); },
             .readings = [this] { return readings(); },
             .events = &recorder,
             .later = [this](std::chrono::milliseconds delay,
                             std::function<void()> task) { return loop.after(delay, std::move(task)); }}) {
    service.set_score_step(config.score_step);
    binder.acts_soon([this] {
      return (scheduler_lease != nullptr && scheduler_lease->waits()) ||
             (freshness.in_doubt() && may_lead_for().count() > 0);
    });
    // The original's lists of ill GPUs are read where its device plugin still is.
    books.on_old_nodes([this] {
      if (!std::exchange(watches_unhealthy, true)) {
        unhealthy.start();
      }
    });
  }

  Status serve();
  Status join_election();
  [[nodiscard]] http::ServerOptions server_options(const std::string& address, std::uint16_t port);

  // The longest that a write of this extender takes.
  [[nodiscard]] std::chrono::milliseconds write_time() const;
  [[nodiscard]] std::chrono::milliseconds may_act_for();
  [[nodiscard]] std::chrono::milliseconds may_lead_for() const;
  [[nodiscard]] std::string not_ready() const;
  [[nodiscard]] std::vector<daemon::Reading> readings() const;
  void told_synced();
  void look_around();
  void tell_problems();

  http::EventLoop& loop;
  Config config;
  OwnPod own_pod;
  Metrics metrics;
  kube::Client client;
  Books books;
  ProblemNews news;
  PodSink pod_sink;
  NodeSink node_sink;
  BudgetSink budget_sink;
  UnhealthySink unhealthy_sink;
  kube::Reflector nodes;
  kube::Reflector pods;
  kube::Reflector budgets;    // without them all works; preempt is then as careful as it can be
  kube::Reflector unhealthy;  // only where some node has the plugin before us
  bool watches_unhealthy = false;
  Freshness freshness;
  LeaderLabel label;
  kube::EventRecorder recorder;
  std::unique_ptr<kube::LeaderElector> elector;     // none for a sidecar
  std::unique_ptr<SchedulerLease> scheduler_lease;  // only for a sidecar
  Binder binder;
  Service service;
  std::optional<http::Server> server;
  std::optional<http::Server> health_server;
  http::Timer round_timer;
  Clock::Steady began{};
  bool said_ready = false;
  unsigned rounds = 0;
};

http::ServerOptions Extender::Parts::server_options(const std::string& address, std::uint16_t port) {
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

Status Extender::Parts::serve() {
  http::ServerOptions options = server_options(config.address, config.port);
  if (!config.tls_certificate.empty()) {
    options.tls.emplace();
    options.tls->identity.certificate_file = config.tls_certificate;
    options.tls->identity.key_file = config.tls_key;
    options.tls->client_ca_file = config.tls_client_ca;
  }
  // A connection through the Service stays with its pod when that no longer leads; kube-scheduler
  // would get "does not lead" from it for as long as it has work.
  options.close_after_response = [this] { return elector != nullptr && !elector->leading(); };
  server.emplace(
      TRY(http::Server::create(loop, std::move(options), [this](http::Request& request, http::Reply reply) {
        service.handle(request, std::move(reply));
      })));
  if (config.health_port != 0) {
    http::ServerOptions health = server_options(config.health_address, config.health_port);
    health.max_body_bytes = kHealthBody;  // open to everybody, and nobody has to send anything
    health_server.emplace(
        TRY(http::Server::create(loop, std::move(health), [this](http::Request& request, http::Reply reply) {
          service.handle_health(request, std::move(reply));
        })));
  }
  return {};
}

Status Extender::Parts::join_election() {
  if (config.attach == Attach::kSidecar) {
    if (!config.scheduler_lease_name.empty()) {
      if (own_pod.name.empty()) {
        return fail(ErrorCode::kInvalid,
                    "schedulerLease: which scheduler is the one beside this extender is told by the name of "
                    "their pod; set the environment variable POD_NAME to metadata.name");
      }
      scheduler_lease = std::make_unique<SchedulerLease>(
          client,
          SchedulerLease::Options{.namespace_name = config.scheduler_lease_namespace,
                                  .name = config.scheduler_lease_name,
                                  .own_pod = own_pod.name,
                                  .write_time = write_time()},
          [this] { freshness.doubt("the kube-scheduler beside it has begun to lead"); });
    }
    return {};
  }
  const kube::Random random = kube::default_random();
  const std::string name = own_pod.name.empty() ? "tessera-extender" : own_pod.name;
  const std::string fallback = own_pod.namespace_name.empty() ? "kube-system" : own_pod.namespace_name;
  elector = TRY(kube::LeaderElector::create(
      client,
      {.namespace_name = config.lease_namespace.empty() ? fallback : config.lease_namespace,
       .lease = config.lease_name,
       .election = {.identity = fmt::format("{}_{:016x}", name, random()),
                    .duration = config.lease_duration,
                    .renew_deadline = config.renew_deadline,
                    .retry_period = config.retry_period}},
      [this](bool leading) {
        if (leading) {
          freshness.doubt("it has begun to lead, and another may have bound pods until now");
        }
        label.set(leading);
      }));
  return {};
}

std::chrono::milliseconds Extender::Parts::write_time() const {
  // A Lease of our own is given back when our writes are over. A scheduler's is not, and its
  // neighbour waits for them: see SchedulerLease::begin_to_lead.
  return config.scheduler_lease_name.empty() ? config.bind_timeout : config.bind_timeout / 2;
}

std::chrono::milliseconds Extender::Parts::may_act_for() {
  return freshness.current() ? may_lead_for() : std::chrono::milliseconds(0);
}

std::chrono::milliseconds Extender::Parts::may_lead_for() const {
  if (elector != nullptr) {
    return std::min(write_time(), elector->time_left());
  }
  // Beside a scheduler its lease is ours. Without one, who asks leads.
  return scheduler_lease != nullptr ? std::min(write_time(), scheduler_lease->time_left()) : write_time();
}

std::string Extender::Parts::not_ready() const {
  if (nodes.synced() && pods.synced()) {
    for (const auto& [what, watch] : {std::pair{"nodes", &nodes}, std::pair{"pods", &pods}}) {
      const auto silent =
          std::chrono::duration_cast<std::chrono::seconds>(client.clock().now() - watch->last_heard());
      if (watch->problem() && silent > kDeaf) {
        return fmt::format("nothing was heard of {} for {} s: {}", what, silent.count(),
                           watch->problem()->text());
      }
    }
    // Whoever may not read it can never bind, and is to say why.
    if (const std::string missing = scheduler_lease == nullptr ? "" : scheduler_lease->not_known();
        !missing.empty()) {
      return missing;
    }
    // Who may not read them does without.
    const bool lists_unhealthy = watches_unhealthy && !unhealthy.synced() && !unhealthy.problem();
    return lists_unhealthy ? "lists of unhealthy GPUs are still being read" : "";
  }
  std::string missing = !nodes.synced() && !pods.synced() ? "nodes and pods are"
                        : !nodes.synced()                 ? "nodes are"
                                                          : "pods are";
  missing += " still being listed";
  for (const kube::Reflector* one : {&nodes, &pods}) {
    if (one->problem()) {
      return missing + ": " + one->problem()->text();
    }
  }
  return missing;
}

void Extender::Parts::told_synced() {
  if (!said_ready && not_ready().empty()) {
    said_ready = true;
    log::info(
        "ready",
        {{"nodes", nodes.objects()},
         {"pods", pods.objects()},
         {"took_ms",
          std::chrono::duration_cast<std::chrono::milliseconds>(client.clock().now() - began).count()}});
  }
}

void Extender::Parts::look_around() {
  told_synced();
  books.learn_typical_pods();
  binder.look_after_unseen();
  if (elector != nullptr && elector->leading() && ++rounds % kLabelRounds == 0) {
    label.set(true);
  }
  tell_problems();
  round_timer = loop.after(kRound, [this] { look_around(); });
}

void Extender::Parts::tell_problems() {
  // Of several replicas one is enough, and one that is not ready yet sees problems where it only
  // knows half.
  if (may_lead_for().count() <= 0 || !not_ready().empty()) {
    return;
  }
  for (const alloc::Problem& problem : news.take(books.ledger(), client.clock().now())) {
    log::warn("problem", {{"kind", alloc::to_string(problem.kind)}, {"what", problem.text}});
    // kubectl describe finds the Events of a pod by its UID.
    const std::size_t slash = problem.pod.find('/');
    kube::EventNote note = slash == std::string::npos
                               ? kube::EventNote::about_node(problem.node)
                               : kube::EventNote::about_pod(problem.pod.substr(0, slash),
                                                            problem.pod.substr(slash + 1), problem.uid);
    recorder.record(std::move(note).as_warning(std::string(event_reason(problem.kind)), problem.text));
  }
}

std::vector<daemon::Reading> Extender::Parts::readings() const {
  daemon::Readings all;
  all.gauge("tessera_extender_ready", "1 when nodes and pods have been read", not_ready().empty() ? 1 : 0);
  all.gauge("tessera_extender_leading", "1 when this replica may bind",
            may_lead_for().count() > 0 && !freshness.in_doubt() ? 1 : 0);
  if (server) {
    all.add_server("tessera_extender_connections", server->stats());
  }
  add_ledger_readings(books, all);
  add_bind_readings(binder, all);
  add_watch_readings("nodes", nodes, all);
  add_watch_readings("pods", pods, all);
  add_watch_readings("disruption_budgets", budgets, all);
  if (watches_unhealthy) {
    add_watch_readings("unhealthy_gpus", unhealthy, all);
  }
  if (scheduler_lease != nullptr) {
    add_watch_readings("scheduler_lease", scheduler_lease->watch(), all);
  }
  all.add_events("tessera_extender_events_dropped_total", recorder.counts());
  return all.take();
}

Extender::Extender(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Extender::~Extender() = default;

Result<std::unique_ptr<Extender>> Extender::create(http::EventLoop& loop, Config config,
                                                   kube::ClusterAccess access, OwnPod own_pod) {
  kube::ClientOptions options;
  options.user_agent = fmt::format("tessera-extender/{}", version());
  kube::Client client = TRY(kube::Client::create(loop, std::move(access), options));
  auto parts = std::make_unique<Parts>(loop, std::move(config), std::move(client), std::move(own_pod));
  TRY(parts->serve());
  TRY(parts->join_election());
  return std::unique_ptr<Extender>(new Extender(std::move(parts)));
}

void Extender::start() {
  Parts& parts = *parts_;
  parts.began = parts.client.clock().now();
  log::info("start", {{"version", version()},
                      {"listen", fmt::format("{}:{}", parts.config.address, port())},
                      {"attach", parts.elector == nullptr ? "sidecar" : "service"},
                      {"api", parts.client.server()},
                      {"unit", parts.config.unit.text()}});
  parts.nodes.start();
  parts.pods.start();
  parts.budgets.start();
  parts.freshness.start();
  if (parts.scheduler_lease != nullptr) {
    parts.scheduler_lease->start();
  }
  if (parts.elector != nullptr) {
    // A container that crashed while leading has left the label on its pod.
    parts.label.set(false);
    parts.elector->start();
  }
  parts.look_around();
}

void Extender::reload(const Config& next) {
  Parts& parts = *parts_;
  const std::vector<std::string> need_restart = apply_reloadable(next, parts.config);
  parts.books.set_policies(books_options(parts.config).placer);
  parts.service.set_score_step(parts.config.score_step);
  if (const Status status = log::configure(parts.config.log); !status) {
    log::error("log settings not taken over", {{"why", status.error()}});
  }
  log::info("reloaded", {{"shared", alloc::to_string(parts.config.share_policy)},
                         {"whole", alloc::to_string(parts.config.whole_policy)}});
  if (!need_restart.empty()) {
    log::warn("needs a restart to take effect", {{"settings", join_words(need_restart)}});
  }
}

void Extender::stop(std::function<void()> done) {
  Parts& parts = *parts_;
  parts.round_timer.cancel();
  parts.server->drain(parts.config.bind_timeout + kDrain, [&parts, done = std::move(done)] {
    if (parts.elector == nullptr) {
      done();
      return;
    }
    // A caller that was answered, or hung up, before the outcome was known leaves the write behind.
    parts.binder.after_writes([&parts, done] { parts.elector->hand_over(done); });
  });
}

std::uint16_t Extender::port() const {
  return parts_->server->port();
}

bool Extender::ready() const {
  return parts_->not_ready().empty();
}

}  // namespace tessera::extender
