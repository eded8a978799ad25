// Which connections of a Server are closed to make room for others.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "http/server_impl.h"

namespace tessera::http {
namespace {

// The part of max_connections that one peer address cannot have: an eighth.
constexpr std::size_t kReserved = 8;
// A connection whose request takes longer may be closed if its peer needs memory for another one.
constexpr std::chrono::seconds kBodyPatience{2};

}  // namespace

bool Server::Impl::make_room(const asio::ip::address& peer) {
  const auto own = by_peer.find(peer);
  const bool own_only =
      own != by_peer.end() && own->second >= options.max_connections - options.max_connections / kReserved;
  return (!own_only && connections.size() < options.max_connections) ||
         evict([&](const ServerConnection& one) { return !own_only || one.address() == peer; });
}

void Server::Impl::make_room_for_response(std::uint64_t bytes) {
  while (responses_bytes > 0 && responses_bytes + bytes > options.max_responses_bytes &&
         evict([](const ServerConnection& one) { return one.unsent() > 0; })) {
  }
}

bool Server::Impl::make_room_for_body(std::uint64_t bytes, const ServerConnection& asking) {
  while (bodies_bytes + bytes > options.max_bodies_bytes) {
    std::map<asio::ip::address, std::uint64_t> reserved;
    for (const auto& connection : connections) {
      reserved[connection->address()] += connection->reserved();
    }
    const auto largest = std::ranges::max_element(reserved, {}, [](const auto& peer) { return peer.second; });
    const bool unfair = largest != reserved.end() && largest->second > reserved[asking.address()] + bytes;
    const auto may_close = [&, now = std::chrono::steady_clock::now()](const ServerConnection& one) {
      return &one != &asking && one.reserved() > 0 &&
             (unfair ? one.address() == largest->first
                     : one.address() == asking.address() && now - one.since() > kBodyPatience);
    };
    if (!evict(may_close)) {
      return false;
    }
  }
  return true;
}

bool Server::Impl::evict(const std::function<bool(const ServerConnection&)>& may_close) {
  using Rank = std::tuple<ServerConnection::Worth, std::size_t, SteadyTime>;
  std::optional<Rank> lowest;
  std::shared_ptr<ServerConnection> victim;
  for (const auto& connection : connections) {
    const ServerConnection::Worth worth = connection->worth();
    if (worth == ServerConnection::Worth::kBusy || !may_close(*connection)) {
      continue;
    }
    const std::size_t others = connections.size() - by_peer[connection->address()];
    const Rank rank{worth, others, connection->since()};
    if (!lowest || rank < *lowest) {
      lowest = rank;
      victim = connection;
    }
  }
  if (victim == nullptr) {
    return false;
  }
  ++counters.evicted;
  victim->close();
  remove(victim);
  return true;
}

}  // namespace tessera::http
