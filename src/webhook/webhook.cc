#include "webhook/webhook.h"

#include <fmt/core.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <utility>

#include "base/log.h"
#include "base/version.h"
#include "daemon/health_routes.h"
#include "daemon/readings.h"
#include "daemon/request_metrics.h"
#include "http/server.h"
#include "kube/client.h"
#include "webhook/keeper.h"
#include "webhook/review.h"

namespace tessera::webhook {

namespace {

constexpr std::string_view kPath = "/scheduler-name";
// Time for the calls in flight when the program ends.
constexpr std::chrono::seconds kDrain{5};
// The API server sends a review in one piece and waits a few seconds for the answer.
constexpr std::chrono::seconds kBodyTimeout{5};
constexpr std::uint64_t kHealthBody = 64U << 10U;

// Returns a certificate that no client trusts, for the time until the keeper has one.
Result<http::TlsIdentity> placeholder(const std::string& host, Clock::Wall now) {
  const Identity identity = TRY(make_identity(host, std::chrono::minutes(1), now));
  return http::TlsIdentity{.certificate_pem = identity.server.certificate, .key_pem = identity.server.key};
}

struct Metrics {
  prometheus::Registry registry;
  daemon::RequestMetrics requests{
      registry,
      {.durations = "tessera_webhook_request_duration_seconds", .requests = "tessera_webhook_requests_total"},
      {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.1, 1, 5}};
  prometheus::Family<prometheus::Counter>& reviews =
      prometheus::BuildCounter()
          .Name("tessera_webhook_reviews_total")
          .Help(
              "Pods in calls of the API server, by result: changed (schedulerName was set), unchanged, "
              "other (not the creation of a readable pod) or invalid (not an AdmissionReview)")
          .Register(registry);
  prometheus::Counter& changed = reviews.Add({{"result", "changed"}});
  prometheus::Counter& unchanged = reviews.Add({{"result", "unchanged"}});
  prometheus::Counter& other = reviews.Add({{"result", "other"}});
  prometheus::Counter& invalid = reviews.Add({{"result", "invalid"}});

  prometheus::Counter& of(Review::Verdict verdict) {
    return verdict == Review::Verdict::kChanged     ? changed
           : verdict == Review::Verdict::kUnchanged ? unchanged
                                                    : other;
  }
};

}  // namespace

struct Webhook::Impl {
  Impl(http::EventLoop& loop_, const Config& config_)
      : loop(loop_),
        config(config_),
        rules{.names = alloc::ResourceNames(config.resources),
              .scheduler_name = config.scheduler_name,
              .max_bytes = config.max_body_bytes},
        health({.not_ready = [this] { return keeper ? keeper->not_ready() : std::string(); },
                .metrics = [this] { return daemon::metrics_text(metrics.registry, readings()); }}) {}

  Status serve(http::ServerTls tls);
  [[nodiscard]] http::ServerOptions server_options(const std::string& address, std::uint16_t port);
  void handle(http::Request& request, http::Reply reply);
  [[nodiscard]] std::vector<daemon::Reading> readings() const;

  http::EventLoop& loop;
  const Config config;
  const ReviewRules rules;
  Metrics metrics;
  daemon::HealthRoutes health;
  std::optional<http::Server> server;
  std::optional<http::Server> health_server;
  std::optional<kube::Client> client;
  std::optional<Keeper> keeper;  // none if the certificates are in files
};

http::ServerOptions Webhook::Impl::server_options(const std::string& address, std::uint16_t port) {
  http::ServerOptions options;
  options.address = address;
  options.port = port;
  options.max_connections = config.max_connections;
  options.max_body_bytes = config.max_body_bytes;
  options.max_bodies_bytes = 4 * config.max_body_bytes;
  options.body_timeout = kBodyTimeout;
  options.on_access = [this](const http::Access& access) { metrics.requests.count(access); };
  return options;
}

Status Webhook::Impl::serve(http::ServerTls tls) {
  http::ServerOptions options = server_options(config.address, config.port);
  options.tls = std::move(tls);
  server.emplace(
      TRY(http::Server::create(loop, std::move(options), [this](http::Request& request, http::Reply reply) {
        handle(request, std::move(reply));
      })));
  http::ServerOptions for_health = server_options(config.health_address, config.health_port);
  for_health.max_body_bytes = kHealthBody;
  health_server.emplace(TRY(
      http::Server::create(loop, std::move(for_health), [this](http::Request& request, http::Reply reply) {
        if (!health.handle(request, reply)) {
          reply.send_error(404, "this port serves /healthz, /readyz, /metrics and /version");
        }
      })));
  return {};
}

void Webhook::Impl::handle(http::Request& request, http::Reply reply) {
  if (request.path() != kPath) {
    reply.send_error(404, fmt::format("this port serves {}", kPath));
    return;
  }
  request.set_route("scheduler-name");
  if (request.method() != "POST") {
    reply.send_error(405, "use POST");
    return;
  }
  Result<Review> review = answer_review(request.body().text(), rules);
  if (!review) {
    // The API server then creates the pod unchanged, because failurePolicy is Ignore.
    metrics.invalid.Increment();
    log::debug("invalid call", {{"peer", request.peer()}, {"error", review.error()}});
    reply.send_error(400, review.error().text());
    return;
  }
  metrics.of(review->verdict).Increment();
  if (review->verdict == Review::Verdict::kChanged) {
    log::debug("set schedulerName", {{"pod", review->pod}});
  }
  reply.send({.body = std::move(review->answer)});
}

std::vector<daemon::Reading> Webhook::Impl::readings() const {
  daemon::Readings all;
  all.gauge("tessera_webhook_ready", "1 when the API server can call the webhook",
            !keeper || keeper->not_ready().empty() ? 1 : 0);
  all.add_server("tessera_webhook_connections", server->stats());
  if (keeper) {
    const Keeper::Counts& counts = keeper->counts();
    if (counts.expires) {
      all.gauge("tessera_webhook_certificate_expiry_timestamp_seconds",
                "When the certificate in use expires, in seconds since 1970",
                std::chrono::duration<double>(counts.expires->time_since_epoch()).count());
    }
    all.gauge("tessera_webhook_ca_bundle_current",
              "1 if the API server trusted all authorities at the last check", counts.trusted ? 1 : 0);
    all.counter("tessera_webhook_certificates_created_total", "Certificates that this replica created",
                counts.created);
    all.counter("tessera_webhook_secrets_restored_total",
                "Times that the Secret was missing or damaged and was written again", counts.restored);
    all.counter("tessera_webhook_ca_bundle_writes_total",
                "Writes of caBundle to the MutatingWebhookConfiguration", counts.bundle_writes);
    all.counter("tessera_webhook_certificate_failures_total",
                "Checks of the certificates that failed, for example because the API server was unreachable",
                counts.failures);
  }
  return all.take();
}

Webhook::Webhook(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Webhook::~Webhook() = default;

Result<std::unique_ptr<Webhook>> Webhook::create(http::EventLoop& loop, const Config& config,
                                                 const OwnPod& own_pod,
                                                 std::optional<kube::ClusterAccess> access) {
  auto impl = std::make_unique<Impl>(loop, config);
  http::ServerTls tls;
  if (config.has_own_files()) {
    tls.identity.certificate_file = config.tls_certificate;
    tls.identity.key_file = config.tls_key;
  } else {
    kube::ClientOptions options;
    options.user_agent = fmt::format("tessera-webhook/{}", version());
    impl->client.emplace(TRY(kube::Client::create(loop, std::move(access).value(), options)));
    const std::string space = !config.namespace_name.empty()    ? config.namespace_name
                              : !own_pod.namespace_name.empty() ? own_pod.namespace_name
                                                                : impl->client->default_namespace();
    KeeperOptions wanted{.namespace_name = space,
                         .secret = config.secret,
                         .configuration = config.configuration,
                         .host = fmt::format("{}.{}.svc", config.service, space),
                         .manager = own_pod.name.empty() ? "tessera-webhook" : own_pod.name,
                         .lifetime = config.lifetime,
                         .settle = config.settle,
                         .check_every = config.check_every};
    tls.identity = TRY(placeholder(wanted.host, impl->client->clock().wall()));
    impl->keeper.emplace(*impl->client, std::move(wanted), [raw = impl.get()](const http::TlsIdentity& one) {
      return raw->server->set_tls({.identity = one});
    });
  }
  TRY(impl->serve(std::move(tls)));
  return std::unique_ptr<Webhook>(new Webhook(std::move(impl)));
}

void Webhook::start() {
  Impl& impl = *impl_;
  log::info("starting", {{"version", version()},
                         {"listen", fmt::format("{}:{}", impl.config.address, port())},
                         {"scheduler", impl.config.scheduler_name},
                         {"certificates", impl.keeper ? impl.config.secret : impl.config.tls_certificate}});
  if (impl.keeper) {
    impl.keeper->start();
  }
}

void Webhook::stop(std::function<void()> done) {
  Impl& impl = *impl_;
  if (impl.keeper) {
    impl.keeper->stop();
  }
  impl.server->drain(kDrain, std::move(done));
}

std::uint16_t Webhook::port() const {
  return impl_->server->port();
}

std::uint16_t Webhook::health_port() const {
  return impl_->health_server->port();
}

}  // namespace tessera::webhook
