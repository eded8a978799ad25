// Measures the Kubernetes client:
//   lists    decoding 5,000 nodes (8.9 KB each) and 40,000 pods (3 KB each) over TLS, compared with
//            reading and discarding the same bytes plus one simdjson pass over them
//   memory   memory per stored object
//   watch    watch events per second
//   posts    POST requests per second, compared with a bare loop
//
// Runs against a server in this process. The lists can also run against a real API server:
//   TESSERA_BENCH_KUBECONFIG=file kube_bench --seed     # creates the objects, once
//   TESSERA_BENCH_KUBECONFIG=file kube_bench
// tests/kube/bench-real-api-server.sh does both. To run one part: kube_bench
// memory|lists|watch|posts
#include <fmt/core.h>
#include <malloc.h>
#include <simdjson.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <optional>
#include <string_view>
#include <thread>

#include "bare_beast.h"
#include "base/log.h"
#include "base/strings.h"
#include "http/client.h"
#include "kube/access.h"
#include "kube/reflector.h"
#include "kube_bench_objects.h"
#include "kube_bench_server.h"
#include "kube_bench_sinks.h"

namespace tessera::kube {
namespace {

using namespace std::chrono_literals;
using bench::kEvents;
using bench::kPage;

// User and system CPU time of the calling thread, in seconds.
double cpu() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

void verdict(std::string_view what, double value, std::string_view relation, double bar, bool met) {
  fmt::print("  {:<58} {:>10.2f}  (bar: {} {:g})  {}\n", what, value, relation, bar, met ? "met" : "MISSED");
}

void at_most(std::string_view what, double value, double bar) {
  verdict(what, value, "<=", bar, value <= bar);
}

void at_least(std::string_view what, double value, double bar) {
  verdict(what, value, ">=", bar, value >= bar);
}

// `field` is "VmRSS" or its peak, "VmHWM".
double memory_mb(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) {
      return std::stod(line.substr(field.size() + 1)) / 1024;
    }
  }
  return 0;
}

void forget_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

double heap_bytes() {
  return static_cast<double>(::mallinfo2().uordblks) + static_cast<double>(::mallinfo2().hblkhd);
}

// The cheapest possible simdjson pass over a page: skips every item without reading it.
std::string step_over(simdjson::ondemand::parser& parser, json::PaddedView page, std::size_t& items) {
  simdjson::ondemand::document document =
      parser.iterate(page.data(), page.size(), page.size() + json::kPadding);
  std::string next;
  for (auto field : document.get_object()) {
    if (field.key() == "metadata") {
      std::string_view token;
      if (field.value()["continue"].get_string().get(token) == simdjson::SUCCESS) {
        next = token;
      }
    } else if (field.key() == "items") {
      for (auto item : field.value().get_array()) {
        static_cast<void>(item.error());
        ++items;
      }
    }
  }
  return next;
}

// A pass that reads all values into simdjson's own tree.
std::string parse_all(simdjson::dom::parser& parser, json::PaddedView page, std::size_t& items) {
  const simdjson::dom::element document = parser.parse(page.data(), page.size(), /*realloc_if_needed=*/false);
  items += document["items"].get_array().size();
  std::string_view token;
  return document["metadata"]["continue"].get_string().get(token) == simdjson::SUCCESS ? std::string(token)
                                                                                       : "";
}

struct Measured {
  double seconds = 0;
  std::size_t items = 0;
  std::uint64_t bytes = 0;
};

template <class Parser>
Measured discard(http::Client& client, const std::string& path, const std::string& authorization,
                 std::string (*pass)(Parser&, json::PaddedView, std::size_t&)) {
  Parser parser;
  json::PaddedBuffer buffer;
  Measured measured;
  const double before = cpu();
  std::string next;
  do {
    http::ClientRequest request;
    request.target =
        fmt::format("{}?limit={}{}{}", path, kPage, next.empty() ? "" : "&continue=", percent_encoded(next));
    request.buffer = std::move(buffer);
    if (!authorization.empty()) {
      request.headers.emplace_back("Authorization", authorization);
    }
    auto response = client.fetch(std::move(request));
    if (!response || response->status != 200) {
      throw std::runtime_error("the baseline cannot read " + path);
    }
    buffer = std::move(response->body);
    measured.bytes += buffer.size();
    next = pass(parser, buffer.view(), measured.items);
    buffer.clear();
  } while (!next.empty());
  measured.seconds = cpu() - before;
  return measured;
}

Measured reflect(http::EventLoop& loop, Client& client, const std::string& path) {
  KeepingSink sink(path == "/api/v1/pods");
  ReflectorOptions options;
  options.path = path;
  options.page_items = kPage;
  Reflector reflector(client, options, sink);
  Measured measured;
  const double before = cpu();
  reflector.start();
  loop.run_until([&] { return sink.is_synced; }, 300s);
  measured.seconds = cpu() - before;
  measured.items = sink.kept_calls;
  measured.bytes = reflector.counts().wire_bytes;
  return measured;
}

// Lists `path` into `state`. Returns the number of objects.
double fill(http::EventLoop& loop, Client& client, LedgerSink::State& state, bool pods) {
  LedgerSink sink(state, pods);
  ReflectorOptions options;
  options.path = pods ? "/api/v1/pods" : "/api/v1/nodes";
  options.page_items = kPage;
  Reflector reflector(client, options, sink);
  reflector.start();
  loop.run_until([&] { return sink.is_synced; }, 300s);
  return static_cast<double>(sink.objects);
}

// Returns how much memory is freed when the object is destroyed.
template <class T>
double size_of(T& kept) {
  const double before = heap_bytes();
  kept.reset();
  return before - heap_bytes();
}

// Loads all nodes and pods into one ledger and measures the memory per object and the peak. The
// reflector is measured separately from the ledger, whose size depends on the GPUs per node (eight
// here).
void memory_bars(http::EventLoop& loop, Client& client) {
  forget_peak();
  const double resident = memory_mb("VmRSS:");
  LedgerSink::State both;
  const double nodes = fill(loop, client, both, false);
  const double pods = fill(loop, client, both, true);
  const double growth = memory_mb("VmHWM:") - resident;
  const double both_ledger = size_of(both.ledger);
  const double both_tracker = size_of(both.tracker);
  LedgerSink::State only_nodes;
  fill(loop, client, only_nodes, false);
  const double node_ledger = size_of(only_nodes.ledger);
  const double node_tracker = size_of(only_nodes.tracker);
  fmt::print("Memory, {} nodes and {} pods; a reflector keeps {:.0f} bytes of a node and {:.0f} of a pod:\n",
             nodes, pods, node_tracker / nodes, (both_tracker - node_tracker) / pods);
  at_most("bytes kept of a node, with the ledger", (node_ledger + node_tracker) / nodes, 1024);
  at_most("bytes kept of a pod, with the ledger",
          (both_ledger - node_ledger + both_tracker - node_tracker) / pods, 500);
  at_most("peak of resident memory over the start, MB", growth, 64);
}

void list_bar(http::EventLoop& loop, Client& client, http::Client& raw, const std::string& authorization,
              int rounds) {
  double total_ours = 0;
  double total_base = 0;
  double total_parsed = 0;
  fmt::print("Lists, the best of {} rounds:\n", rounds);
  for (const char* path : {"/api/v1/nodes", "/api/v1/pods"}) {
    Measured ours;
    Measured base;
    Measured parsed;
    for (int round = 0; round < rounds; ++round) {
      const Measured one = reflect(loop, client, path);
      const Measured two = discard(raw, path, authorization, step_over);
      const Measured three = discard(raw, path, authorization, parse_all);
      ours = round == 0 || one.seconds < ours.seconds ? one : ours;
      base = round == 0 || two.seconds < base.seconds ? two : base;
      parsed = round == 0 || three.seconds < parsed.seconds ? three : parsed;
    }
    fmt::print(
        "  {:14} {:6} objects of {:5.0f} bytes: {:7.1f} ms CPU; read + step over {:7.1f} ms, ratio {:.2f}; "
        "read + parse {:7.1f} ms, ratio {:.2f}\n",
        path, ours.items, static_cast<double>(ours.bytes) / static_cast<double>(ours.items),
        ours.seconds * 1e3, base.seconds * 1e3, ours.seconds / base.seconds, parsed.seconds * 1e3,
        ours.seconds / parsed.seconds);
    total_ours += ours.seconds;
    total_base += base.seconds;
    total_parsed += parsed.seconds;
  }
  at_most("CPU of both lists, ours / read + step over all items", total_ours / total_base, 1.2);
  at_most("CPU of both lists, ours / read + parse all", total_ours / total_parsed, 1.2);
}

void watch_bar(http::EventLoop& loop, Client& client) {
  KeepingSink sink(true);
  ReflectorOptions options;
  options.path = "/api/v1/pods";
  Reflector reflector(client, options, sink);
  reflector.start();
  loop.run_until([&] { return sink.is_synced; }, 300s);
  const double before = cpu();
  const auto began = std::chrono::steady_clock::now();
  loop.run_until([&] { return reflector.counts().events >= kEvents; }, 300s);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  const auto events = static_cast<double>(reflector.counts().events);
  fmt::print("Watch, {} events of 3 KB: {:.1f} us CPU each\n", events, (cpu() - before) * 1e6 / events);
  at_least("events a second", events / took.count(), 10'000);
}

constexpr std::size_t kPosts = 10'000;
constexpr std::size_t kConnections = 16;

double rate_of(const std::function<void()>& send_all) {
  const auto start = std::chrono::steady_clock::now();
  send_all();
  return static_cast<double>(kPosts) /
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Sends `count` create requests over kConnections connections; `request(i)` returns the next one.
void post_all(http::EventLoop& loop, Client& client, std::size_t count,
              const std::function<Request(std::size_t)>& request) {
  std::size_t started = 0;
  std::size_t done = 0;
  std::vector<Call> calls(kConnections);
  std::function<void(std::size_t)> next = [&](std::size_t slot) {
    if (started == count) {
      return;
    }
    calls[slot] = client.send(request(started++), [&, slot](const Result<Reply>& reply) {
      if (!reply) {
        fmt::print(stderr, "{}\n", reply.error().text());
        std::exit(1);
      }
      if (++done == count) {
        loop.stop();
      }
      next(slot);
    });
  };
  for (std::size_t slot = 0; slot < kConnections; ++slot) {
    next(slot);
  }
  loop.run();
}

template <class T>
T must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "{}\n", result.error().text());
    std::exit(1);
  }
  return std::move(*result);
}

// Compares the Kubernetes client, with credentials, retries and deadlines, with a bare loop that
// sends the same requests.
void post_bar(http::EventLoop& loop) {
  constexpr int kRounds = 15;
  const std::string body(600, 'x');
  bench::BareServer server(R"({"kind":"Status","status":"Success"})");
  std::jthread thread([&] { server.run(); });
  ClusterAccess access;
  access.cluster.server = fmt::format("http://127.0.0.1:{}", server.port());
  access.user.token = "token";
  Client client = must(Client::create(loop, access, {.max_connections = kConnections}));
  const bench::BareRequest same{.target = "/api/v1/nodes?timeout=30000ms",
                                .fields = {{"User-Agent", "tessera"},
                                           {"Accept-Encoding", "identity"},
                                           {"Accept", "application/json"},
                                           {"Content-Type", "application/json"},
                                           {"Authorization", "Bearer token"}},
                                .body = body};
  std::vector<double> ratios;
  std::vector<double> costs;  // CPU time of this thread, independent of other load
  double ours = 0;
  double bare = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double began = cpu();
    const double one = rate_of([&] {
      post_all(loop, client, kPosts, [&](std::size_t) { return create_request("/api/v1/nodes", body); });
    });
    const double between = cpu();
    const double two = rate_of([&] { bench::bare_client(server.port(), same, kConnections, kPosts); });
    costs.push_back((between - began) / (cpu() - between));
    ratios.push_back(one / two);
    ours = std::max(ours, one);
    bare = std::max(bare, two);
  }
  server.stop();
  std::ranges::nth_element(ratios, ratios.begin() + kRounds / 2);
  std::ranges::nth_element(costs, costs.begin() + kRounds / 2);
  fmt::print(
      "POST of 600 bytes over {} connections: {:.0f}/s at best, bare Beast {:.0f}/s; CPU {:.2f} of bare\n",
      kConnections, ours, bare, costs[kRounds / 2]);
  at_least("rate, ours / bare, median of 15 rounds", ratios[kRounds / 2], 0.9);
}

void seed(http::EventLoop& loop, Client& client) {
  post_all(loop, client, bench::kNodes,
           [](std::size_t i) { return create_request(node_path(""), bench::node_to_create(i)); });
  post_all(loop, client, bench::kPods,
           [](std::size_t i) { return create_request(pod_path("default", ""), bench::pod_to_create(i)); });
}

int run(std::string_view only) {
  log::Options quiet;
  quiet.level = log::Level::kError;
  static_cast<void>(log::configure(quiet).has_value());
  const char* kubeconfig = std::getenv("TESSERA_BENCH_KUBECONFIG");
  std::optional<bench::ApiServer> server;
  ClusterAccess access;
  if (kubeconfig != nullptr) {
    AccessOptions options;
    options.kubeconfig = kubeconfig;
    access = must(find_access(options));
  } else {
    server.emplace();
    access = server->access();
  }
  http::EventLoop loop;
  Client client = must(Client::create(loop, access, {}));
  if (only == "--seed") {
    seed(loop, client);
    return 0;
  }
  const auto wanted = [only](std::string_view part) { return only.empty() || only == part; };
  http::ClientOptions raw_options;
  raw_options.url = access.cluster.server;
  raw_options.tls.ca_pem = must(access.cluster.certificate_authority.read());
  raw_options.tls.identity.certificate_pem = must(access.user.client_certificate.read());
  raw_options.tls.identity.key_pem = must(access.user.client_key.read());
  http::Client raw = must(http::Client::create(loop, raw_options));
  if (wanted("memory")) {
    memory_bars(loop, client);
  }
  if (wanted("lists")) {
    list_bar(loop, client, raw, access.user.token.empty() ? "" : "Bearer " + access.user.token,
             server ? 15 : 4);
  }
  if (server && wanted("watch")) {
    watch_bar(loop, client);
  }
  if (server && wanted("posts")) {
    post_bar(loop);
  }
  return 0;
}

}  // namespace
}  // namespace tessera::kube

int main(int argc, char** argv) {
  return tessera::kube::run(argc > 1 ? argv[1] : "");
}
