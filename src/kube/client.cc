#include "kube/client.h"

#include <fmt/core.h>

#include <future>

#include "base/log.h"
#include "base/strings.h"
#include "http/wait_for_response.h"
#include "http/url.h"
#include "kube/client_core.h"

namespace tessera::kube {

namespace {

Result<std::optional<http::Url>> proxy_of(const Cluster& cluster) {
  if (!cluster.proxy_url.empty()) {
    const std::string where = fmt::format("{}: cluster {}: proxy-url", cluster.file, in_quotes(cluster.name));
    http::Url proxy = TRY(with_context(http::parse_url(cluster.proxy_url, true), where));
    if (proxy.tls) {
      return fail(ErrorCode::kUnsupported,
                  where + ": TLS to the proxy itself is not supported; use an http:// proxy");
    }
    return std::optional(std::move(proxy));
  }
  const http::Url server = TRY(http::parse_url(cluster.server));
  return http::proxy_for(server, http::ProxySettings::from_environment());
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

http::HeaderFields common_headers(const Impersonation& as) {
  http::HeaderFields headers{{"Accept", "application/json"}};
  if (as.user.empty()) {
    return headers;
  }
  headers.emplace_back("Impersonate-User", as.user);
  if (!as.uid.empty()) {
    headers.emplace_back("Impersonate-Uid", as.uid);
  }
  for (const std::string& group : as.groups) {
    headers.emplace_back("Impersonate-Group", group);
  }
  for (const auto& [key, value] : as.extra) {
    headers.emplace_back("Impersonate-Extra-" + percent_encoded(key), value);
  }
  return headers;
}

void warn_about_trust(const Cluster& cluster, const http::Url& server) {
  if (cluster.insecure_skip_tls_verify) {
    log::warn("the API server is not verified: insecure-skip-tls-verify is set",
              {{"file", cluster.file}, {"cluster", cluster.name}, {"server", server.origin()}});
  }
}

}  // namespace

void Call::State::forget() {
  over = true;
  transfer = {};
  wait = {};
  on_reply = nullptr;
  on_end = nullptr;
  // on_data stays: it may be what is calling us.
}

void Call::State::reply(Result<Reply> result) {
  if (!over.exchange(true)) {
    const Client::OnReply done = std::move(on_reply);
    done(std::move(result));
  }
}

void Call::State::end(StreamEnd result) {
  if (!over.exchange(true)) {
    const Client::OnEnd done = std::move(on_end);
    done(std::move(result));
  }
}

Call& Call::operator=(Call&& other) noexcept {
  if (this != &other) {
    const Call ended(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

Call::~Call() {
  if (state_ == nullptr || state_->over) {
    return;
  }
  if (state_->loop.here()) {
    state_->forget();
  } else {
    state_->loop.post([state = state_] { state->forget(); });
  }
}

bool Call::active() const {
  return state_ != nullptr && !state_->over;
}

Client::Core::Core(http::EventLoop& owner, ClusterAccess where, ClientOptions settings)
    : loop(owner),
      access(std::move(where)),
      options(std::move(settings)),
      random(options.random ? options.random : default_random()),
      credentials(access, *options.clock, options.run_plugin) {}

Client::Core::~Core() {
  if (plugin.joinable()) {
    plugin.join();
  }
}

// Nothing calls back before this returns: what ends at once ends later all the same, see give_up().
void Client::Core::start(const StatePtr& state) {
  if (loop.here()) {
    attempt(state);
  } else {
    loop.post([self = shared_from_this(), state] { self->attempt(state); });
  }
}

Status Client::Core::connect_with(const Credential& credential) {
  if (transport && credential.certificate_generation == certificate_generation) {
    return {};
  }
  const Cluster& cluster = access.cluster;
  http::ClientOptions http;
  http.url = cluster.server;
  http.tls.ca_pem = cluster.certificate_authority.data;
  http.tls.ca_file = cluster.certificate_authority.file;
  http.tls.server_name = cluster.tls_server_name;
  http.tls.insecure_skip_verify = cluster.insecure_skip_tls_verify;
  http.tls.identity.certificate_pem = credential.client_certificate;
  http.tls.identity.key_pem = credential.client_key;
  http.proxy = TRY(proxy_of(cluster));
  http.timeouts.connect = options.connect_timeout;
  http.user_agent = options.user_agent;
  http.headers = common_headers(access.user.impersonate);
  http.max_connections = options.max_connections;
  // Requests come in waves, and a new connection costs more than many requests; unused ones end by
  // themselves.
  http.max_idle_connections = options.max_connections;
  const std::string where = access.context.empty()
                                ? fmt::format("API server {}", cluster.server)
                                : fmt::format("{}: context {}", cluster.file, in_quotes(access.context));
  transport = TRY(with_context(http::Client::create(loop, std::move(http)), where));
  certificate_generation = credential.certificate_generation;
  return {};
}

Result<Client> Client::create(http::EventLoop& loop, ClusterAccess access, ClientOptions options) {
  auto core = std::make_shared<Core>(loop, std::move(access), std::move(options));
  // What can be wrong is better said now than with the first request; a plugin is run when it is needed.
  CredentialPtr credential = std::make_shared<const Credential>();
  if (!core->credentials.blocks()) {
    credential = TRY(core->credentials.current());
  }
  TRY(core->connect_with(*credential));
  const http::Url server = TRY(http::parse_url(core->access.cluster.server));
  warn_about_trust(core->access.cluster, server);
  core->in_the_clear = !server.tls && !is_loopback(server.host);
  if (core->in_the_clear) {
    log::warn("the API server is spoken to without TLS, so no token or password is sent; use https://",
              {{"server", server.origin()}});
  }
  return Client(std::move(core));
}

Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

http::EventLoop& Client::loop() const {
  return core_->loop;
}
const Clock& Client::clock() const {
  return *core_->options.clock;
}
const std::string& Client::default_namespace() const {
  return core_->access.namespace_name;
}
const std::string& Client::server() const {
  return core_->access.cluster.server;
}
Random Client::random() const {
  return core_->random;
}

Call Client::send(Request request, OnReply done) {
  auto state = std::make_shared<Call::State>(core_->loop, std::move(request));
  state->on_reply = std::move(done);
  state->deadline = core_->options.clock->now() + state->request.deadline;
  core_->start(state);
  return Call(std::move(state));
}

Call Client::stream(Request request, std::chrono::milliseconds idle, OnData on_data, OnEnd on_end) {
  auto state = std::make_shared<Call::State>(core_->loop, std::move(request));
  state->streaming = true;
  state->idle = idle;
  state->on_data = std::move(on_data);
  state->on_end = std::move(on_end);
  state->deadline = core_->options.clock->now() + state->request.deadline;
  core_->start(state);
  return Call(std::move(state));
}

Result<Reply> Client::fetch(Request request) {
  if (core_->loop.here()) {
    return fail(ErrorCode::kInternal, "Client::fetch was called on the thread that has to bring the answer");
  }
  auto answer = std::make_shared<std::promise<Result<Reply>>>();
  std::future<Result<Reply>> future = answer->get_future();
  const Call call =
      send(std::move(request), [answer](Result<Reply> reply) { answer->set_value(std::move(reply)); });
  return http::wait_for_response(core_->loop, future);
}

}  // namespace tessera::kube
