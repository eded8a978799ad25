#include "kube/client.h"

#include <fmt/core.h>

#include <future>

#include "base/log.h"
#include "base/strings.h"
#include "http/url.h"
#include "http/wait_for_response.h"
#include "kube/client_impl.h"

namespace tessera::kube {

namespace {

Result<std::optional<http::Url>> proxy_of(const KubeconfigCluster& cluster) {
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
  http::HeaderFields headers;
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

void warn_about_trust(const KubeconfigCluster& cluster, const http::Url& server) {
  if (cluster.insecure_skip_tls_verify) {
    log::warn("TLS verification of the API server is disabled by insecure-skip-tls-verify",
              {{"file", cluster.file}, {"cluster", cluster.name}, {"server", server.origin()}});
  }
}

}  // namespace

void Call::Impl::forget() {
  over = true;
  transfer = {};
  wait = {};
  on_reply = nullptr;
  on_end = nullptr;
  // Keep on_data: it may be the caller of this function.
}

void Call::Impl::reply(Result<Reply> result) {
  if (!over.exchange(true)) {
    const Client::OnReply done = std::move(on_reply);
    done(std::move(result));
  }
}

void Call::Impl::end(StreamEnd result) {
  if (!over.exchange(true)) {
    const Client::OnEnd done = std::move(on_end);
    done(std::move(result));
  }
}

Call& Call::operator=(Call&& other) noexcept {
  if (this != &other) {
    const Call ended(std::move(*this));
    impl_ = std::move(other.impl_);
  }
  return *this;
}

Call::~Call() {
  if (impl_ == nullptr || impl_->over) {
    return;
  }
  if (impl_->loop.here()) {
    impl_->forget();
  } else {
    impl_->loop.post([impl = impl_] { impl->forget(); });
  }
}

bool Call::active() const {
  return impl_ != nullptr && !impl_->over;
}

Client::Impl::Impl(http::EventLoop& owner, ClusterAccess where, ClientOptions settings)
    : loop(owner),
      access(std::move(where)),
      options(std::move(settings)),
      random(options.random ? options.random : default_random()),
      credentials(access, *options.clock, options.run_plugin) {}

Client::Impl::~Impl() {
  if (plugin.joinable()) {
    plugin.join();
  }
}

// No callback runs before this returns: give_up() posts the error even if the request fails at
// once.
void Client::Impl::start(const CallPtr& call) {
  if (loop.here()) {
    attempt(call);
  } else {
    loop.post([self = shared_from_this(), call] { self->attempt(call); });
  }
}

Status Client::Impl::connect_with(const Credential& credential) {
  if (transport && credential.certificate_generation == certificate_generation) {
    return {};
  }
  const KubeconfigCluster& cluster = access.cluster;
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
  // Requests arrive in bursts, and a new connection costs more than many requests. Idle connections
  // expire by themselves.
  http.max_idle_connections = options.max_connections;
  const std::string where = access.context.empty()
                                ? fmt::format("API server {}", cluster.server)
                                : fmt::format("{}: context {}", cluster.file, in_quotes(access.context));
  transport = TRY(with_context(http::Client::create(loop, std::move(http)), where));
  certificate_generation = credential.certificate_generation;
  return {};
}

Result<Client> Client::create(http::EventLoop& loop, ClusterAccess access, ClientOptions options) {
  auto impl = std::make_shared<Impl>(loop, std::move(access), std::move(options));
  // Report errors now instead of with the first request. An exec plugin runs only when it is
  // needed.
  CredentialPtr credential = std::make_shared<const Credential>();
  if (!impl->credentials.blocks()) {
    credential = TRY(impl->credentials.current());
  }
  TRY(impl->connect_with(*credential));
  const http::Url server = TRY(http::parse_url(impl->access.cluster.server));
  warn_about_trust(impl->access.cluster, server);
  impl->unencrypted = !server.tls && !is_loopback(server.host);
  if (impl->unencrypted) {
    log::warn("the API server has no TLS, so no token or password is sent to it; use https://",
              {{"server", server.origin()}});
  }
  return Client(std::move(impl));
}

Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

http::EventLoop& Client::loop() const {
  return impl_->loop;
}
const Clock& Client::clock() const {
  return *impl_->options.clock;
}
const std::string& Client::default_namespace() const {
  return impl_->access.namespace_name;
}
const std::string& Client::server() const {
  return impl_->access.cluster.server;
}
Random Client::random() const {
  return impl_->random;
}

Call Client::send(Request request, OnReply done) {
  auto call = std::make_shared<Call::Impl>(impl_->loop, std::move(request));
  call->on_reply = std::move(done);
  call->deadline = impl_->options.clock->now() + call->request.deadline;
  impl_->start(call);
  return Call(std::move(call));
}

Call Client::stream(Request request, std::chrono::milliseconds idle, OnData on_data, OnEnd on_end) {
  auto call = std::make_shared<Call::Impl>(impl_->loop, std::move(request));
  call->streaming = true;
  call->idle = idle;
  call->on_data = std::move(on_data);
  call->on_end = std::move(on_end);
  call->deadline = impl_->options.clock->now() + call->request.deadline;
  impl_->start(call);
  return Call(std::move(call));
}

Result<Reply> Client::fetch(Request request) {
  if (impl_->loop.here()) {
    return fail(ErrorCode::kInternal, "Client::fetch must not be called on the thread of the event loop");
  }
  auto promise = std::make_shared<std::promise<Result<Reply>>>();
  std::future<Result<Reply>> future = promise->get_future();
  const Call call =
      send(std::move(request), [promise](Result<Reply> reply) { promise->set_value(std::move(reply)); });
  return http::wait_for_response(impl_->loop, future);
}

}  // namespace tessera::kube
