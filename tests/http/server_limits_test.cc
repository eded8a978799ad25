// Eviction of connections when more peers connect than the server has room for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "http/client.h"
#include "server_fixture.h"
#include "test_certificates.h"

namespace tessera::http {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kGet = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
// Another address of the loopback interface: another peer.
constexpr const char* kAttacker = "127.0.0.2";

class ServerLimitsTest : public ServerTest {
 protected:
  // Opens `count` connections that send `bytes` and stay open. Waits until the server has accepted
  // them.
  void attack(std::size_t count, std::string_view bytes, const char* source = kAttacker) {
    const std::uint64_t before = server_->stats().accepted;
    for (std::size_t i = 0; i < count; ++i) {
      hostile_.push_back(RawConnection::to(server_->port(), source));
      hostile_.back().send(bytes);
    }
    EXPECT_TRUE(eventually([&] { return server_->stats().accepted >= before + count; }));
  }

  // Opens a keep-alive connection and uses it once, as kube-scheduler does.
  RawConnection established() {
    RawConnection connection = connect();
    EXPECT_EQ(ask(connection), "200");
    return connection;
  }

  // Returns the status of a response; "" if the connection is closed.
  static std::string ask(RawConnection& connection) {
    connection.send(kGet);
    const std::string response = read_response(connection);
    return response.size() < 12 ? "" : response.substr(9, 3);
  }

  std::string probe() {
    RawConnection connection = connect();
    return ask(connection);
  }

  std::vector<RawConnection> hostile_;
};

TEST_F(ServerLimitsTest, HalfOpenConnectionsLeaveRoomForProbes) {
  serve({.max_connections = 64});
  RawConnection scheduler = established();
  for (const std::size_t count : {64U, 1000U}) {
    attack(count, "G");
    EXPECT_EQ(probe(), "200") << count;
    EXPECT_EQ(ask(scheduler), "200") << count;
  }
  EXPECT_LE(server_->stats().connections, 64U);
  EXPECT_EQ(server_->stats().refused_full, 0U);
  EXPECT_GE(server_->stats().evicted, 1000U);
}

// The attack from the address of the probes and of kube-scheduler, as through a NodePort.
TEST_F(ServerLimitsTest, HalfOpenConnectionsOfTheSamePeerLeaveRoomForProbes) {
  serve({.max_connections = 64});
  RawConnection scheduler = established();
  attack(1000, "G", "127.0.0.1");
  EXPECT_EQ(probe(), "200");
  EXPECT_EQ(ask(scheduler), "200");
}

TEST_F(ServerLimitsTest, BodiesThatNeverArriveLeaveRoomForProbes) {
  serve({.max_connections = 64});
  RawConnection scheduler = established();
  attack(200, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx");
  EXPECT_EQ(probe(), "200");
  EXPECT_EQ(ask(scheduler), "200");
}

TEST_F(ServerLimitsTest, BodiesThatNeverArriveLeaveMemoryForOtherPeers) {
  serve({.max_body_bytes = 4U << 20U, .max_bodies_bytes = 8U << 20U, .max_connections = 64});
  RawConnection scheduler = established();
  const std::string body(200'000, 'x');
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + body;
  for (int i = 0; i < 5; ++i) {
    attack(40, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4194304\r\n\r\nx");
    scheduler.send(post);
    EXPECT_THAT(read_response(scheduler), StartsWith("HTTP/1.1 200"));
    RawConnection other = connect();
    other.send(post);
    EXPECT_THAT(read_response(other), StartsWith("HTTP/1.1 200"));
  }
  EXPECT_GT(server_->stats().evicted, 0U);
}

TEST_F(ServerLimitsTest, ConnectionsThatSentARequestLeaveRoomForOtherPeers) {
  serve({.max_connections = 64});
  RawConnection scheduler = established();
  attack(200, kGet);
  attack(200, std::string(kGet) + "G");  // pipelined: the server ends them after the response
  EXPECT_EQ(probe(), "200");
  EXPECT_EQ(ask(scheduler), "200") << "an established connection was closed for a peer that has more";
}

TEST_F(ServerLimitsTest, PeersThatDoNotReadLeaveRoomForProbes) {
  serve({.max_connections = 16}, [](Request& request, Reply reply) {
    reply.send({.body = std::string(request.path() == "/large" ? 16U << 20U : 1U, 'x')});
  });
  RawConnection scheduler = established();
  attack(40, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(probe(), "200");
  EXPECT_EQ(ask(scheduler), "200");
}

// A response must not stay in memory because its peer does not read it.
TEST_F(ServerLimitsTest, ResponsesThatAreNotReadNeedLimitedMemory) {
  constexpr std::size_t kLarge = 16U << 20U;  // more than the kernel buffers
  serve({.max_responses_bytes = 4 * kLarge}, [](Request& request, Reply reply) {
    reply.send({.body = std::string(request.path() == "/large" ? kLarge : 1U, 'x')});
  });
  RawConnection scheduler = established();
  attack(20, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return server_->stats().connections <= 5; }));
  EXPECT_EQ(server_->stats().evicted, 16U);
  EXPECT_EQ(probe(), "200");
  scheduler.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_GT(read_response(scheduler).size(), kLarge);
  EXPECT_EQ(ask(scheduler), "200");
}

TEST_F(ServerLimitsTest, OnePeerCannotOccupyAllConnectionsWithRequestsInProgress) {
  std::vector<Reply> pending;
  serve({.max_connections = 16}, [&](Request& request, Reply reply) {
    if (request.path() == "/slow") {
      pending.push_back(std::move(reply));
    } else {
      reply.send({});
    }
  });
  attack(20, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(hostile_.back().read_all(), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(server_->stats().refused_full, 6U) << "14 of 16 connections for one peer";
  EXPECT_EQ(probe(), "200");
  loop_.call([&] { pending.clear(); });
}

TEST_F(ServerLimitsTest, UnfinishedTlsHandshakesLeaveRoomForClients) {
  const TestAuthority ca("tessera test authority");
  const PemPair pair = ca.issue({.common_name = "server", .addresses = {"127.0.0.1"}});
  serve({.tls = ServerTls{.identity = {.certificate_pem = pair.certificate, .key_pem = pair.key}},
         .max_connections = 64});
  const auto client = [&] {
    return Client::create(loop_, {.url = "https://127.0.0.1:" + std::to_string(server_->port()),
                                  .tls = {.ca_pem = ca.certificate()}})
        .value();
  };
  Client scheduler = client();
  ASSERT_TRUE(scheduler.fetch({.target = "/filter"}));
  attack(1000, "\x16\x03\x01");
  Client probing = client();
  const auto probed = probing.fetch({.target = "/healthz"});
  EXPECT_TRUE(probed) << probed.error().text();
  const auto kept = scheduler.fetch({.target = "/filter"});
  EXPECT_TRUE(kept) << kept.error().text();
  // 1,002: the scheduler did not have to connect again.
  EXPECT_EQ(server_->stats().accepted, 1002U);
}

}  // namespace
}  // namespace tessera::http
