// Load on a real cluster, for tests/extender/cluster/measure.sh:
//
//   extender_load create < pods.jsonl
//       creates the pods of the lines, in their order
//   extender_load bound --count N
//       waits until N more pods are bound, and prints the rate
//   extender_load bind --nodes M [--extender URL]
//       binds all unbound pods to nodes sim-0001 and up, directly or through the extender, and
//       prints the rate
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <deque>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

#include "http/client.h"
#include "http/event_loop.h"
#include "kube/access.h"
#include "kube/client.h"
#include "kube/reflector.h"
#include "objects/pod_decoder.h"

namespace {

using namespace tessera;
using namespace std::chrono_literals;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

template <class Value>
Value value_of(Result<Value> result) {
  if (!result) {
    throw std::runtime_error(result.error().text());
  }
  return *std::move(result);
}

kube::Client client_of(http::EventLoop& loop) {
  return value_of(kube::Client::create(loop, value_of(kube::find_access({})), {.max_connections = 64}));
}

// Keeps all pods, and when each was first seen bound.
class Pods : public kube::ObjectSink {
 public:
  struct Unbound {
    std::string name;
    std::string uid;
  };

  Status decode(kube::ObjectJson& object, kube::ObjectMeta& meta) override {
    return objects::decode_pod(object, names_, meta, pod_);
  }
  void keep(const kube::ObjectMeta& meta) override {
    if (pod_.node_name.empty()) {
      unbound.push_back({.name = meta.name, .uid = meta.uid});
    } else if (bound_.insert(meta.uid).second && is_synced) {
      times.push_back(std::chrono::steady_clock::now());
    }
  }
  void forget(const kube::ObjectMeta& /*meta*/) override {}
  void unreadable(const kube::ObjectMeta& meta, const Error& error) override {
    throw std::runtime_error(meta.name + ": " + error.text());
  }
  void synced() override { is_synced = true; }

  bool is_synced = false;
  std::deque<Unbound> unbound;  // in the order in which the server reported them
  std::vector<std::chrono::steady_clock::time_point> times;

 private:
  alloc::ResourceNames names_;
  alloc::PodSpec pod_;
  std::unordered_set<std::string> bound_;
};

// Keeps `at_once` requests in flight until all have been sent.
class Volley {
 public:
  using Done = std::function<void()>;
  // Sends request `i` and calls `done` when it is answered.
  using Send = std::function<void(std::size_t i, Done done)>;

  Volley(http::EventLoop& loop, std::size_t count, std::size_t at_once, Send send)
      : loop_(loop), count_(count), at_once_(at_once), send_(std::move(send)) {}

  double run() {
    const auto begin = std::chrono::steady_clock::now();
    loop_.post([this] {
      for (std::size_t i = 0; i < at_once_; ++i) {
        next();
      }
    });
    if (!loop_.run_until([this] { return answered_ == count_; }, 300s)) {
      throw std::runtime_error(fmt::format("only {} of {} were answered", answered_, count_));
    }
    return seconds_since(begin);
  }

 private:
  void next() {
    if (sent_ < count_) {
      send_(sent_++, [this] {
        ++answered_;
        next();
      });
    }
  }

  http::EventLoop& loop_;
  std::size_t count_;
  std::size_t at_once_;
  Send send_;
  std::size_t sent_ = 0;
  std::size_t answered_ = 0;
};

int create(std::size_t at_once) {
  http::EventLoop loop;
  kube::Client client = client_of(loop);
  std::vector<std::string> lines;
  for (std::string line; std::getline(std::cin, line);) {
    lines.push_back(line);
  }
  std::vector<kube::Call> calls(lines.size());
  Volley volley(loop, lines.size(), at_once, [&](std::size_t i, const Volley::Done& done) {
    calls[i] = client.send(kube::create_request(kube::pod_path("default", ""), lines[i]),
                           [done](const Result<kube::Reply>& reply) {
                             if (!reply) {
                               throw std::runtime_error(reply.error().text());
                             }
                             done();
                           });
  });
  const double seconds = volley.run();
  fmt::print("created {} pods in {:.2f} s\n", lines.size(), seconds);
  return 0;
}

int wait_bound(std::size_t count, int timeout_seconds, int quiet_seconds) {
  http::EventLoop loop;
  kube::Client client = client_of(loop);
  Pods pods;
  kube::Reflector reflector(client, {.path = kube::pod_path("default", "")}, pods);
  reflector.start();
  loop.run_until([&] { return pods.is_synced; }, 30s);
  fmt::print("watching\n");
  std::fflush(stdout);
  const auto begin = std::chrono::steady_clock::now();
  const auto is_quiet = [&] {
    return quiet_seconds > 0 && !pods.times.empty() && seconds_since(pods.times.back()) > quiet_seconds;
  };
  while (pods.times.size() < count && !is_quiet()) {
    if (seconds_since(begin) > timeout_seconds) {
      fmt::print("only {} of {} pods were bound in {} s\n", pods.times.size(), count, timeout_seconds);
      return 1;
    }
    loop.run_until([&] { return pods.times.size() >= count; }, 1s);
  }
  const double took = std::chrono::duration<double>(pods.times.back() - pods.times.front()).count();
  fmt::print("bound {} pods in {:.3f} s: {:.1f} pods/s\n", pods.times.size(), took,
             static_cast<double>(pods.times.size() - 1) / took);
  return 0;
}

int bind_pods(const std::string& extender, unsigned nodes, std::size_t at_once, std::size_t most) {
  http::EventLoop loop;
  kube::Client client = client_of(loop);
  Pods pods;
  std::optional<kube::Reflector> reflector;
  reflector.emplace(client, kube::ReflectorOptions{.path = kube::pod_path("default", "")}, pods);
  reflector->start();
  loop.run_until([&] { return pods.is_synced; }, 30s);
  reflector.reset();
  std::optional<http::Client> to_extender;
  if (!extender.empty()) {
    to_extender.emplace(
        value_of(http::Client::create(loop, {.url = extender, .max_idle_connections = at_once})));
  }
  std::size_t failed = 0;
  const std::size_t count = std::min(most, pods.unbound.size());
  std::vector<http::Call> calls(count);
  std::vector<kube::Call> bare_calls(count);
  Volley volley(loop, count, at_once, [&](std::size_t i, const Volley::Done& done) {
    const Pods::Unbound& pod = pods.unbound[i];
    const std::string node = fmt::format("sim-{:04}", 1 + i % nodes);
    if (to_extender) {
      calls[i] = to_extender->send(
          {.method = "POST",
           .target = "/gpushare-scheduler/bind",
           .body = fmt::format(R"({{"PodName":"{}","PodNamespace":"default","PodUID":"{}","Node":"{}"}})",
                               pod.name, pod.uid, node)},
          [&failed, done](Result<http::ClientResponse> response) {
            failed += response && response->body.text() == R"({"Error":""})" ? 0 : 1;
            done();
          });
      return;
    }
    bare_calls[i] = client.send(
        value_of(kube::bind_request(
            {.namespace_name = "default", .pod = pod.name, .uid = pod.uid, .node = node, .annotations = {}})),
        [&failed, done](const Result<kube::Reply>& reply) {
          failed += reply ? 0 : 1;
          done();
        });
  });
  const double seconds = volley.run();
  fmt::print("{} binds, {} failed, in {:.2f} s: {:.0f} binds/s\n", count, failed, seconds,
             static_cast<double>(count) / seconds);
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Load on a real cluster", "extender_load");
  std::size_t at_once = 16;
  std::size_t count = 1;
  std::size_t most = 1'000'000;
  unsigned nodes = 1;
  int timeout = 120;
  int quiet = 0;
  std::string extender;
  CLI::App* create_command = app.add_subcommand("create", "Create the pods of stdin, one per line");
  CLI::App* bound_command = app.add_subcommand("bound", "Wait until pods are bound");
  CLI::App* bind_command = app.add_subcommand("bind", "Bind all unbound pods");
  app.require_subcommand(1);
  create_command->add_option("--at-once", at_once, "Requests in flight; 1 keeps the order of the lines");
  bind_command->add_option("--at-once", at_once, "Requests in flight");
  bind_command->add_option("--most", most, "Bind at most this many pods");
  bind_command->add_option("--nodes", nodes, "Number of nodes, sim-0001 and up")->required();
  bind_command->add_option("--extender", extender, "http://127.0.0.1:39999");
  bound_command->add_option("--count", count, "Number of pods")->required();
  bound_command->add_option("--timeout", timeout, "Seconds");
  bound_command->add_option("--quiet", quiet, "Also end after this many seconds without a new bind");
  CLI11_PARSE(app, argc, argv);
  try {
    return create_command->parsed()  ? create(at_once)
           : bound_command->parsed() ? wait_bound(count, timeout, quiet)
                                     : bind_pods(extender, nodes, at_once, most);
  } catch (const std::exception& error) {
    fmt::print(stderr, "extender_load: {}\n", error.what());
    return 1;
  }
}
