// What it costs to bring 5,000 nodes (8.9 KB each) and 40,000 pods (3 KB) over TLS into what the ledger wants
// of them, beside reading and discarding the same bytes plus one pass of simdjson over them; and how many
// events of a watch a second are kept up with.
//
// Against a server in this process, on another thread, or against a real API server that holds such objects:
//   TESSERA_BENCH_KUBECONFIG=file kube_bench
#include <fmt/format.h>
#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <thread>

#include "base/log.h"
#include "base/strings.h"
#include "http/client.h"
#include "http/server.h"
#include "kube/access.h"
#include "kube/node_decoder.h"
#include "kube/pod_decoder.h"
#include "kube/reflector.h"
#include "test_certificates.h"

namespace tessera::kube {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kNodes = 5000;
constexpr std::size_t kPods = 40'000;
constexpr std::size_t kEvents = 60'000;
constexpr std::size_t kPage = 500;
constexpr int kRounds = 15;

// CPU of the calling thread, in seconds, with what the kernel does for it.
double cpu() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

double resident_megabytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

std::string metadata(const std::string& name, std::size_t number, std::size_t padding) {
  return fmt::format(
      R"("metadata":{{"name":"{}","namespace":"default","uid":"00000000-0000-4000-8000-{:012x}","resourceVersion":"{}",)"
      R"("creationTimestamp":"2026-11-15T00:00:00Z","labels":{{"app":"seed","rack":"r01"}},)"
      R"("annotations":{{"ALIYUN_COM_GPU_MEM_IDX":"3","ALIYUN_COM_GPU_MEM_POD":"4","note":"x"}},)"
      R"("managedFields":[{{"manager":"seed","fieldsV1":{{"f:metadata":{{"f:labels":{{{}}}}}}}}}]}})",
      name, number, number + 1, [&] {
        std::string fields;
        while (fields.size() < padding) {
          fields += fmt::format(R"({}"f:key{}":{{}})", fields.empty() ? "" : ",", fields.size());
        }
        return fields;
      }());
}

std::string node_json(std::size_t i) {
  std::string images;
  for (int k = 0; k < 30; ++k) {
    images += fmt::format(
        R"({}{{"names":["registry.example.internal/team-{}/app-{}@sha256:{:064x}"],"sizeBytes":{}}})",
        k == 0 ? "" : ",", k % 7, k, k * 7919, 100'000'000 + k);
  }
  return fmt::format(
      R"({{{},"spec":{{"podCIDR":"10.0.0.0/24"}},"status":{{"capacity":{{"cpu":"128","memory":"1056270412Ki",)"
      R"("aliyun.com/gpu-mem":"640","aliyun.com/gpu-count":"8"}},"allocatable":{{"cpu":"127610m","memory":"1030455372Ki"}},)"
      R"("conditions":[{{"type":"Ready","status":"True","reason":"KubeletReady","message":"kubelet is posting ready status"}}],)"
      R"("images":[{}]}}}})",
      metadata(fmt::format("gpu-node-{:05}.cluster.example.internal", i), i, 4200), images);
}

std::string pod_json(std::size_t i, std::size_t version) {
  return fmt::format(
      R"({{{},"spec":{{"nodeName":"gpu-node-{:05}.cluster.example.internal","containers":[{{"name":"main","image":"a/b:1",)"
      R"("command":["python3","train.py"],"env":[{{"name":"E1","value":"v"}},{{"name":"E2","value":"v"}}],)"
      R"("resources":{{"limits":{{"aliyun.com/gpu-mem":"4","cpu":"1","memory":"2Gi"}},"requests":{{"aliyun.com/gpu-mem":"4","cpu":"1","memory":"2Gi"}}}}}}],)"
      R"("tolerations":[{{"operator":"Exists"}}],"schedulerName":"x"}},"status":{{"phase":"Running","podIP":"10.1.2.3",)"
      R"("conditions":[{{"type":"Ready","status":"True","lastTransitionTime":"2026-11-15T00:00:00Z"}}],)"
      R"("containerStatuses":[{{"name":"main","ready":true,"image":"a/b:1","state":{{"running":{{"startedAt":"2026-11-15T00:00:01Z"}}}}}}]}}}})",
      metadata(fmt::format("seed-{:06}", i), version, 1650), i % kNodes);
}

// An API server that has everything ready as bytes.
class BenchServer {
 public:
  BenchServer() : authority_("bench") {
    nodes_ = pages(kNodes, [](std::size_t i) { return node_json(i); });
    pods_ = pages(kPods, [](std::size_t i) { return pod_json(i, i); });
    const http::PemPair identity = authority_.issue({.dns_names = {"localhost"}, .addresses = {"127.0.0.1"}});
    http::ServerTls tls;
    tls.identity.certificate_pem = identity.certificate;
    tls.identity.key_pem = identity.key;
    auto made = http::Server::create(loop_, {.tls = tls}, [this](http::Request& request, http::Reply reply) {
      answer(request, std::move(reply));
    });
    if (!made) {
      throw std::runtime_error(made.error().text());
    }
    server_.emplace(std::move(*made));
    thread_ = std::thread([this] { loop_.run(); });
  }
  BenchServer(const BenchServer&) = delete;
  BenchServer& operator=(const BenchServer&) = delete;
  ~BenchServer() {
    loop_.stop();
    thread_.join();
    stream_ = {};
    server_.reset();
  }

  ClusterAccess access() const {
    ClusterAccess access;
    access.cluster.server = fmt::format("https://127.0.0.1:{}", server_->port());
    access.cluster.certificate_authority.data = authority_.certificate();
    return access;
  }

 private:
  template <class Make>
  static std::vector<std::string> pages(std::size_t count, Make make) {
    std::vector<std::string> result;
    for (std::size_t from = 0; from < count; from += kPage) {
      std::string page = fmt::format(
          R"({{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"{}"{}}},"items":[)", count + 1,
          from + kPage < count ? fmt::format(R"(,"continue":"{}")", from / kPage + 1) : "");
      for (std::size_t i = from; i < std::min(from + kPage, count); ++i) {
        page += (i == from ? "" : ",") + make(i);
      }
      result.push_back(page + "]}");
    }
    return result;
  }

  void answer(http::Request& request, http::Reply reply) {
    const std::string target(request.target());
    if (target.find("watch=1") != std::string::npos) {
      sent_ = 0;
      stream_ = reply.stream({});
      pump();
      return;
    }
    const std::size_t at = target.find("continue=");
    const auto page =
        at == std::string::npos ? 0 : static_cast<std::size_t>(std::atoi(target.c_str() + at + 9));
    reply.send({.body = (target.find("/nodes") != std::string::npos ? nodes_ : pods_).at(page)});
  }

  // Events as fast as the other side takes them.
  void pump() {
    while (sent_ < kEvents && stream_.backlog() < (2U << 20U)) {
      if (!stream_.write(fmt::format("{{\"type\":\"MODIFIED\",\"object\":{}}}\n",
                                     pod_json(sent_ % kPods, kPods + 10 + sent_)))) {
        return;
      }
      ++sent_;
    }
    if (sent_ < kEvents) {
      timer_ = loop_.after(100us, [this] { pump(); });
    }
  }

  http::TestAuthority authority_;
  std::vector<std::string> nodes_;
  std::vector<std::string> pods_;
  http::EventLoop loop_;
  http::ReplyStream stream_;
  http::Timer timer_;
  std::size_t sent_ = 0;
  std::optional<http::Server> server_;
  std::thread thread_;
};

// Reads all that the ledger wants and keeps a little of it: what a ledger then does is measured in
// alloc_bench.
class KeepingSink : public ObjectSink {
 public:
  explicit KeepingSink(bool pods) : pods_(pods) {}

  Status decode(ObjectJson& object, ObjectMeta& meta) override {
    return pods_ ? decode_pod(object, names_, meta, pod_) : decode_node(object, names_, meta, node_);
  }
  void keep(const ObjectMeta& meta) override {
    kept_.push_back({.version = meta.version,
                     .amount = pods_ ? pod_.containers.front().memory_bytes : node_.memory_bytes});
    ++kept_calls;
  }
  void forget(const ObjectMeta& /*meta*/) override {}
  void unreadable(const ObjectMeta& meta, const Error& error) override {
    throw std::runtime_error(meta.name + ": " + error.text());
  }
  void synced() override { is_synced = true; }

  std::size_t kept_calls = 0;
  bool is_synced = false;

 private:
  struct Kept {
    std::uint64_t version = 0;
    std::int64_t amount = 0;
  };
  bool pods_;
  alloc::ResourceNames names_;
  alloc::PodSpec pod_;
  alloc::NodeSpec node_;
  std::vector<Kept> kept_;
};

// One pass of simdjson over a page: every item is stepped over, nothing of it is read.
std::string walk(simdjson::ondemand::parser& parser, json::PaddedView page, std::size_t& items) {
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

struct Measured {
  double seconds = 0;
  std::size_t items = 0;
  std::uint64_t bytes = 0;
};

Measured discard(http::Client& client, const std::string& path, const std::string& authorization) {
  simdjson::ondemand::parser parser;
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
    next = walk(parser, buffer.view(), measured.items);
    buffer.clear();
  } while (!next.empty());
  measured.seconds = cpu() - before;
  return measured;
}

Measured reflect(http::EventLoop& loop, Client& client, const std::string& path, double* growth) {
  const double resident = resident_megabytes();
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
  *growth = std::max(*growth, resident_megabytes() - resident);
  return measured;
}

void compare_lists(http::EventLoop& loop, Client& client, http::Client& raw,
                   const std::string& authorization) {
  double total_ours = 0;
  double total_base = 0;
  double growth = 0;
  for (const char* path : {"/api/v1/nodes", "/api/v1/pods"}) {
    Measured ours;
    Measured base;
    for (int round = 0; round < kRounds; ++round) {
      const Measured one = reflect(loop, client, path, &growth);
      const Measured two = discard(raw, path, authorization);
      if (round == 0 || one.seconds < ours.seconds) {
        ours = one;
      }
      if (round == 0 || two.seconds < base.seconds) {
        base = two;
      }
    }
    fmt::print(
        "list {:14} {:6} objects {:6.1f} MB: {:7.1f} ms CPU, read + one simdjson pass {:7.1f} ms, ratio "
        "{:.2f}\n",
        path, ours.items, static_cast<double>(ours.bytes) / 1e6, ours.seconds * 1e3, base.seconds * 1e3,
        ours.seconds / base.seconds);
    total_ours += ours.seconds;
    total_base += base.seconds;
  }
  fmt::print("list both: ratio {:.2f} (bar 1.20), resident memory grew by {:.1f} MB at most (bar 64)\n",
             total_ours / total_base, growth);
}

void watch_events(http::EventLoop& loop, Client& client) {
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
  fmt::print("watch: {} events in {:.2f} s = {:.0f}/s (bar 10000), {:.1f} us CPU each\n",
             reflector.counts().events, took.count(),
             static_cast<double>(reflector.counts().events) / took.count(),
             (cpu() - before) * 1e6 / static_cast<double>(reflector.counts().events));
}

template <class T>
T must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "{}\n", result.error().text());
    std::exit(1);
  }
  return std::move(*result);
}

int run() {
  log::Options quiet;
  quiet.level = log::Level::kError;
  static_cast<void>(log::configure(quiet).has_value());
  const char* kubeconfig = std::getenv("TESSERA_BENCH_KUBECONFIG");
  std::optional<BenchServer> server;
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
  http::ClientOptions raw_options;
  raw_options.url = access.cluster.server;
  raw_options.tls.ca_pem = must(access.cluster.certificate_authority.read());
  raw_options.tls.identity.certificate_pem = must(access.user.client_certificate.read());
  raw_options.tls.identity.key_pem = must(access.user.client_key.read());
  http::Client raw = must(http::Client::create(loop, raw_options));
  compare_lists(loop, client, raw, access.user.token.empty() ? "" : "Bearer " + access.user.token);
  if (server) {
    watch_events(loop, client);
  }
  return 0;
}

}  // namespace
}  // namespace tessera::kube

int main() {
  return tessera::kube::run();
}
