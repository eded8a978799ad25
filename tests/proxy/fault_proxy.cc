#include "fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <list>
#include <mutex>
#include <thread>

#include "relay.h"

namespace tessera::proxy {

struct FaultProxy::Impl final : RelayHost {
  ~Impl() override { stop(); }

  Status listen(std::uint16_t wanted);
  void accept();
  void stop();

  std::optional<Fault> fault_for(const std::string& method, const std::string& target) override;
  void record(const std::string& method, const std::string& target, int status, bool faulty) override;
  [[nodiscard]] bool frozen() const override { return is_frozen; }
  [[nodiscard]] std::uint64_t cleared() const override { return clears; }

  // Requires the lock.
  template <class What>
  void each_relay(What what) {
    for (auto& [relay, thread] : relays) {
      what(*relay);
    }
  }

  Fd listener;
  std::uint16_t port = 0;
  bool tls = false;
  std::atomic<bool> is_frozen = false;
  std::atomic<bool> refusing = false;
  std::atomic<bool> stopping = false;
  std::atomic<std::uint64_t> clears = 0;

  mutable std::mutex mutex;
  std::list<Fault> faults;
  std::vector<SeenRequest> requests;
  std::size_t hits = 0;
  std::list<std::pair<std::unique_ptr<Relay>, std::jthread>> relays;
  std::jthread acceptor;
};

Status FaultProxy::Impl::listen(std::uint16_t wanted) {
  listener = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(wanted);
  socklen_t size = sizeof address;
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(listener.get(), 128) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return fail(Error::from_errno("listen on 127.0.0.1:" + std::to_string(wanted), errno));
  }
  port = ntohs(address.sin_port);
  acceptor = std::jthread([this] { accept(); });
  return {};
}

void FaultProxy::Impl::accept() {
  while (!stopping) {
    Fd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.valid() || refusing) {
      continue;
    }
    const std::scoped_lock lock(mutex);
    if (stopping) {
      return;
    }
    std::erase_if(relays, [](const auto& entry) { return entry.first->finished(); });
    auto relay = std::make_unique<Relay>(*this, std::move(client));
    Relay* raw = relay.get();
    relays.emplace_back(std::move(relay), std::jthread([raw] { raw->run(); }));
  }
}

void FaultProxy::Impl::stop() {
  stopping = true;
  if (listener.valid()) {
    ::shutdown(listener.get(), SHUT_RDWR);  // wakes accept()
  }
  if (acceptor.joinable()) {
    acceptor.join();
  }
  std::list<std::pair<std::unique_ptr<Relay>, std::jthread>> ending;
  {
    const std::scoped_lock lock(mutex);
    each_relay([](Relay& relay) { relay.cut(false); });
    ending.swap(relays);
  }
  for (auto& [relay, thread] : ending) {
    thread.join();
  }
}

std::optional<Fault> FaultProxy::Impl::fault_for(const std::string& method, const std::string& target) {
  const std::scoped_lock lock(mutex);
  for (auto fault = faults.begin(); fault != faults.end(); ++fault) {
    if ((!fault->method.empty() && fault->method != method) ||
        target.find(fault->target_has) == std::string::npos) {
      continue;
    }
    if (fault->skip > 0) {
      --fault->skip;
      continue;
    }
    const Fault hit = *fault;
    if (fault->times > 0 && --fault->times == 0) {
      faults.erase(fault);
    }
    ++hits;
    return hit;
  }
  return std::nullopt;
}

void FaultProxy::Impl::record(const std::string& method, const std::string& target, int status, bool faulty) {
  const std::scoped_lock lock(mutex);
  requests.push_back({method, target, status, faulty});
}

Result<FaultProxy> FaultProxy::start(ProxyOptions options) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL uses write(2), which raises SIGPIPE
  auto impl = std::make_shared<Impl>();
  impl->upstream = TRY(with_context(http::parse_url(options.upstream), "the upstream URL"));
  if (impl->upstream.tls) {
    impl->upstream_tls = TRY(http::make_client_context({.ca_pem = options.upstream_ca}));
  }
  if (!options.tls.certificate_pem.empty() || !options.tls.certificate_file.empty()) {
    impl->client_tls = TRY(http::make_server_context({.identity = options.tls}));
    impl->tls = true;
  }
  TRY(impl->listen(options.port));
  return FaultProxy(std::move(impl));
}

FaultProxy::FaultProxy(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
FaultProxy::FaultProxy(FaultProxy&&) noexcept = default;

FaultProxy::~FaultProxy() {
  if (impl_ != nullptr) {
    impl_->stop();
  }
}

std::uint16_t FaultProxy::port() const {
  return impl_->port;
}

std::string FaultProxy::url() const {
  return (impl_->tls ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(impl_->port);
}

void FaultProxy::inject(Fault fault) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->faults.push_back(std::move(fault));
}

void FaultProxy::clear() {
  const std::scoped_lock lock(impl_->mutex);
  impl_->faults.clear();
  ++impl_->clears;
  impl_->each_relay([](Relay& relay) { relay.poke(); });
}

void FaultProxy::cut_all(bool reset) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->each_relay([reset](Relay& relay) { relay.cut(reset); });
}

void FaultProxy::freeze(bool on) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->is_frozen = on;
  impl_->each_relay([](Relay& relay) { relay.poke(); });
}

void FaultProxy::refuse(bool on) {
  impl_->refusing = on;
}

std::vector<SeenRequest> FaultProxy::seen() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->requests;
}

std::size_t FaultProxy::open_connections() const {
  const std::scoped_lock lock(impl_->mutex);
  std::size_t open = 0;
  impl_->each_relay([&](const Relay& relay) { open += relay.finished() ? 0 : 1; });
  return open;
}

std::size_t FaultProxy::hits() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->hits;
}

}  // namespace tessera::proxy
