// Compares our HTTP server and client with plain Boost.Beast.
//
// Rounds of both alternate, and the result is the median ratio of adjacent rounds, so that other
// load on the machine affects both equally. The exit code is 1 if a target is missed.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bare_beast.h"
#include "base/fd.h"
#include "http/client.h"
#include "http/server.h"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 21;
constexpr std::size_t kPosts = 1000;     // of 100 KB, per round
constexpr std::size_t kBindings = 4000;  // of 600 bytes, per round
constexpr std::size_t kClientConnections = 8;
constexpr std::size_t kIdleConnections = 1000;
const std::string kReply = R"({"NodeNames":["node-0001"],"FailedNodes":{},"Error":""})";

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double median_ratio(const std::vector<double>& ours, const std::vector<double>& bare) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ratios.push_back(ours[i] / bare[i]);
  }
  return median(ratios);
}

double percentile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(static_cast<double>(values.size() - 1) * part)];
}

double cpu_us(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

clockid_t cpu_clock_of(std::jthread& thread) {
  clockid_t clock{};
  ::pthread_getcpuclockid(thread.native_handle(), &clock);
  return clock;
}

Fd connect_to(std::uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    std::perror("connect");
    std::exit(2);
  }
  return fd;
}

// Sends one request and reads the response on a blocking socket, with as little work as possible.
void post(const Fd& fd, const std::string& request) {
  for (std::size_t sent = 0; sent < request.size();) {
    const ssize_t now = ::send(fd.get(), request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) {
      std::perror("send");
      std::exit(2);
    }
    sent += static_cast<std::size_t>(now);
  }
  std::array<char, 4096> room{};
  std::size_t filled = 0;
  while (std::string_view(room.data(), filled).find(kReply) == std::string_view::npos) {
    const ssize_t now = ::recv(fd.get(), room.data() + filled, room.size() - filled, 0);
    if (now <= 0) {
      std::perror("recv");
      std::exit(2);
    }
    filled += static_cast<std::size_t>(now);
  }
}

struct Load {
  double server_us = 0;  // CPU time of the server thread per request
  std::vector<double> latencies_us;
};

Load load(const Fd& fd, const std::string& request, clockid_t server_clock) {
  Load result;
  const double before = cpu_us(server_clock);
  for (std::size_t i = 0; i < kPosts; ++i) {
    const auto start = Clock::now();
    post(fd, request);
    result.latencies_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  result.server_us = (cpu_us(server_clock) - before) / static_cast<double>(kPosts);
  return result;
}

bool verdict(const char* what, double value, const char* relation, double bar, bool met) {
  std::printf("  %-52s %8.2f  (bar: %s %.2f)  %s\n", what, value, relation, bar, met ? "met" : "MISSED");
  return met;
}

// Our server with its own event loop.
class OurServer {
 public:
  explicit OurServer(std::size_t max_connections)
      : server_(http::Server::create(loop_, {.max_connections = max_connections},
                                     [](http::Request&, http::Reply reply) { reply.send({.body = kReply}); })
                    .value()),
        thread_([this] { loop_.run(); }) {}
  ~OurServer() { loop_.stop(); }
  [[nodiscard]] std::uint16_t port() const { return server_.port(); }
  clockid_t clock() { return cpu_clock_of(thread_); }

 private:
  http::EventLoop loop_;
  http::Server server_;
  std::jthread thread_;
};

bool server_bars() {
  const std::string body(100'000, 'x');
  const std::string request =
      "POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: "
      "100000\r\n"
      "Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n" +
      body;
  OurServer ours(64);
  bench::BareServer bare(kReply);
  std::jthread bare_thread([&] { bare.run(); });
  const Fd to_ours = connect_to(ours.port());
  const Fd to_bare = connect_to(bare.port());
  std::vector<double> our_us;
  std::vector<double> bare_us;
  std::vector<double> latencies;
  std::vector<double> bare_latencies;
  for (int round = 0; round < kRounds; ++round) {
    const Load a = load(to_ours, request, ours.clock());
    const Load b = load(to_bare, request, cpu_clock_of(bare_thread));
    our_us.push_back(a.server_us);
    bare_us.push_back(b.server_us);
    latencies.insert(latencies.end(), a.latencies_us.begin(), a.latencies_us.end());
    bare_latencies.insert(bare_latencies.end(), b.latencies_us.begin(), b.latencies_us.end());
  }
  bare.stop();
  std::printf("Server, 100 KB POST, small answer, one connection, %d rounds of %zu:\n", kRounds, kPosts);
  std::printf("  %-20s %8.1f us CPU/request  p50 %7.1f us  p99 %7.1f us\n", "ours", median(our_us),
              percentile(latencies, 0.5), percentile(latencies, 0.99));
  std::printf("  %-20s %8.1f us CPU/request  p50 %7.1f us  p99 %7.1f us\n", "bare Beast", median(bare_us),
              percentile(bare_latencies, 0.5), percentile(bare_latencies, 0.99));
  const double ratio = median_ratio(our_us, bare_us);
  const double p99_ms = percentile(latencies, 0.99) / 1000;
  const bool cheap = verdict("CPU per request, ours / bare", ratio, "<=", 1.3, ratio <= 1.3);
  // If other load on the machine delays bare Beast too, this run cannot judge the p99.
  const double bare_p99_ms = percentile(bare_latencies, 0.99) / 1000;
  const bool busy = bare_p99_ms > 1;
  const bool quick = verdict("p99 in ms", p99_ms, "<=", 1, p99_ms <= 1) || busy;
  if (busy) {
    std::printf("  (the machine is too busy to judge p99: bare Beast has %.2f ms)\n", bare_p99_ms);
  }
  return cheap && quick;
}

double resident_mb() {
  std::ifstream statm("/proc/self/statm");
  double size = 0;
  double resident = 0;
  statm >> size >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1U << 20U);
}

bool idle_bar() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const std::string request = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
  OurServer ours(2 * kIdleConnections);
  std::vector<Fd> connections;
  connections.reserve(kIdleConnections);
  connections.push_back(connect_to(ours.port()));
  post(connections.back(), request);
  const double before = resident_mb();
  while (connections.size() < kIdleConnections + 1) {
    connections.push_back(connect_to(ours.port()));
    post(connections.back(), request);  // each has served one request and waits for the next
  }
  const double growth = resident_mb() - before;
  std::printf("Server, %zu idle connections:\n", kIdleConnections);
  return verdict("growth of resident memory in MB", growth, "<=", 32, growth <= 32);
}

// Sends kBindings requests over kClientConnections connections, on this thread.
void our_client(std::uint16_t port, const std::string& body) {
  http::EventLoop loop;
  http::Client client = http::Client::create(loop, {.url = "http://127.0.0.1:" + std::to_string(port),
                                                    .max_connections = kClientConnections})
                            .value();
  std::size_t started = 0;
  std::size_t done = 0;
  std::vector<http::Call> calls(kClientConnections);
  std::function<void(std::size_t)> next = [&](std::size_t slot) {
    if (started == kBindings) {
      return;
    }
    ++started;
    calls[slot] = client.send({.method = "POST",
                               .target = "/bind",
                               .headers = {{"Content-Type", "application/json"}},
                               .body = body},
                              [&, slot](const Result<http::ClientResponse>& response) {
                                if (!response || response->status != 200) {
                                  std::fprintf(stderr, "a POST failed\n");
                                  std::exit(2);
                                }
                                if (++done == kBindings) {
                                  loop.stop();
                                }
                                next(slot);
                              });
  };
  for (std::size_t slot = 0; slot < kClientConnections; ++slot) {
    next(slot);
  }
  loop.run();
}

bool client_bar() {
  const std::string body(600, 'x');
  const bench::BareRequest bare{.target = "/bind",
                                .fields = {{"User-Agent", "tessera"},
                                           {"Accept-Encoding", "identity"},
                                           {"Content-Type", "application/json"}},
                                .body = body};
  OurServer server(64);
  std::vector<double> our_rate;
  std::vector<double> bare_rate;
  std::vector<double> our_cpu;
  std::vector<double> bare_cpu;
  const auto timed = [](std::vector<double>& rates, std::vector<double>& cpus,
                        const std::function<void()>& what) {
    const auto start = Clock::now();
    const double cpu = cpu_us(CLOCK_THREAD_CPUTIME_ID);
    what();
    cpus.push_back((cpu_us(CLOCK_THREAD_CPUTIME_ID) - cpu) / static_cast<double>(kBindings));
    rates.push_back(static_cast<double>(kBindings) /
                    std::chrono::duration<double>(Clock::now() - start).count());
  };
  for (int round = 0; round < kRounds; ++round) {
    timed(our_rate, our_cpu, [&] { our_client(server.port(), body); });
    timed(bare_rate, bare_cpu,
          [&] { bench::bare_client(server.port(), bare, kClientConnections, kBindings); });
  }
  std::printf("Client, 600-byte POST over %zu connections, %d rounds of %zu:\n", kClientConnections, kRounds,
              kBindings);
  std::printf("  %-20s %8.0f requests/s  %6.1f us CPU/request\n", "ours", median(our_rate), median(our_cpu));
  std::printf("  %-20s %8.0f requests/s  %6.1f us CPU/request\n", "bare Beast", median(bare_rate),
              median(bare_cpu));
  const double ratio = median_ratio(our_rate, bare_rate);
  return verdict("rate, ours / bare", ratio, ">=", 0.9, ratio >= 0.9);
}

}  // namespace

int main() {
  const bool server = server_bars();
  const bool idle = idle_bar();
  const bool client = client_bar();
  return server && idle && client ? 0 : 1;
}
