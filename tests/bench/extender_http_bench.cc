// Replays filter and prioritize bodies against any extender, beside an empty handler that reads the same body
// and writes the same reply, and prints times and ratios.
//
//   extender_http_bench --url http://127.0.0.1:39999/gpushare-scheduler/filter --pid $(pidof
//   tessera-extender)
//                       --names names.txt [--other-url URL --other-pid PID] [--mem 8] [--requests 400]
//                       [--rounds 5]
//
// Rounds are interleaved and the median round counts, so that a busy moment of the machine hits all alike.
// One connection, one request at a time: the shape that kube-scheduler gives us. CPU is of the server's
// process.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "http/client.h"
#include "http/event_loop.h"
#include "http/server.h"

using namespace tessera;

namespace {

using Millis = double;

struct Round {
  Millis p50 = 0;
  Millis p99 = 0;
  Millis cpu = 0;  // per request
};

struct Target {
  std::string name;
  std::string url;
  int pid = 0;
  std::vector<Round> rounds;
};

// Ticks of user and system time so far.
double cpu_millis(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t end = line.rfind(')');
  if (end == std::string::npos) {
    return 0;
  }
  const std::vector<std::string_view> fields = split_words(std::string_view(line).substr(end + 1));
  const std::int64_t ticks = parse_int(fields.at(11)).value_or(0) + parse_int(fields.at(12)).value_or(0);
  return static_cast<double>(ticks) * 1000.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::string filter_body(const std::vector<std::string>& names, int units) {
  std::string body = fmt::format(
      R"({{"Pod":{{"metadata":{{"name":"bench","namespace":"default","uid":"00000000-0000-0000-0000-000000000001"}},"spec":{{"containers":[{{"name":"main","image":"none","resources":{{"limits":{{"aliyun.com/gpu-mem":"{}"}},"requests":{{"aliyun.com/gpu-mem":"{}"}}}}}}]}},"status":{{"phase":"Pending"}}}},"Nodes":null,"NodeNames":[)",
      units, units);
  for (std::size_t i = 0; i < names.size(); ++i) {
    body += fmt::format("{}\"{}\"", i == 0 ? "" : ",", names[i]);
  }
  return body + "]}";
}

class Caller {
 public:
  explicit Caller(const std::string& url) {
    const std::size_t path = url.find('/', url.find("//") + 2);
    target_ = url.substr(path);
    Result<http::Client> client = http::Client::create(loop_, {.url = url.substr(0, path)});
    if (!client) {
      throw std::runtime_error(client.error().text());
    }
    client_.emplace(*std::move(client));
  }

  std::string call(const std::string& body) {
    Result<http::ClientResponse> response =
        client_->fetch({.method = "POST", .target = target_, .body = body});
    if (!response || response->status != 200) {
      throw std::runtime_error(response ? fmt::format("status {}", response->status)
                                        : response.error().text());
    }
    return std::string(response->body.text());
  }

 private:
  http::EventLoop loop_;
  std::optional<http::Client> client_;
  std::string target_;
};

Round play(const Target& target, const std::string& body, int requests) {
  Caller caller(target.url);
  for (int i = 0; i < 20; ++i) {
    caller.call(body);
  }
  std::vector<Millis> times;
  const double cpu = cpu_millis(target.pid);
  for (int i = 0; i < requests; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    caller.call(body);
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  const double used = cpu_millis(target.pid) - cpu;
  std::ranges::sort(times);
  return {.p50 = times[times.size() / 2], .p99 = times[times.size() * 99 / 100], .cpu = used / requests};
}

// Reads every body and answers with `reply`. Runs in a process of its own, so that its CPU can be told apart.
Target empty_handler(const std::string& reply) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) {
    throw std::runtime_error("pipe");
  }
  const pid_t child = fork();
  if (child == 0) {
    http::EventLoop loop;
    Result<http::Server> server =
        http::Server::create(loop, {.max_body_bytes = 64U << 20U}, [&](http::Request&, http::Reply to) {
          std::string body = to.recycled();
          body += reply;
          to.send({.body = std::move(body)});
        });
    const std::uint16_t port = server ? server->port() : 0;
    if (write(pipe_ends[1], &port, sizeof(port)) != sizeof(port)) {
      _exit(1);
    }
    loop.run();
    _exit(0);
  }
  std::uint16_t port = 0;
  if (read(pipe_ends[0], &port, sizeof(port)) != sizeof(port) || port == 0) {
    throw std::runtime_error("the empty handler did not start");
  }
  return {
      .name = "empty handler", .url = fmt::format("http://127.0.0.1:{}/x", port), .pid = child, .rounds = {}};
}

Round median(std::vector<Round> rounds) {
  const auto middle = [&](auto member) {
    std::ranges::sort(rounds, {}, member);
    return rounds[rounds.size() / 2].*member;
  };
  return {.p50 = middle(&Round::p50), .p99 = middle(&Round::p99), .cpu = middle(&Round::cpu)};
}

int run(std::vector<Target> targets, const std::string& body, int requests, int rounds) {
  const std::string reply = Caller(targets[0].url).call(body);
  targets.push_back(empty_handler(reply));
  for (int round = 0; round < rounds; ++round) {
    for (Target& target : targets) {
      target.rounds.push_back(play(target, body, requests));
    }
  }
  kill(targets.back().pid, SIGKILL);
  waitpid(targets.back().pid, nullptr, 0);
  fmt::print("body {} bytes, reply {} bytes, {} requests, median of {} interleaved rounds\n", body.size(),
             reply.size(), requests, rounds);
  const Round base = median(targets[0].rounds);
  for (const Target& target : targets) {
    const Round result = median(target.rounds);
    fmt::print("{:<14} p50 {:>8.3f} ms ({:>6.2f}x)  p99 {:>8.3f} ms  cpu {:>7.3f} ms ({:>5.2f}x)\n",
               target.name, result.p50, result.p50 / base.p50, result.p99, result.cpu,
               base.cpu > 0 ? result.cpu / base.cpu : 0);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Replays filter or prioritize bodies against an extender", "extender_http_bench");
  std::string url;
  std::string other_url;
  std::string names_file;
  int pid = 0;
  int other_pid = 0;
  int units = 8;
  int requests = 400;
  int rounds = 5;
  app.add_option("--url", url, "The verb's URL")->required();
  app.add_option("--pid", pid, "The server's process, for its CPU");
  app.add_option("--other-url", other_url, "Another server, for comparison");
  app.add_option("--other-pid", other_pid, "Its process");
  app.add_option("--names", names_file, "Node names, one a line")->required();
  app.add_option("--mem", units, "Units of GPU memory that the pod asks for");
  app.add_option("--requests", requests, "In each round")->check(CLI::Range(10, 1'000'000));
  app.add_option("--rounds", rounds, "At least 5 for a figure to tell")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  const Result<std::string> text = read_file(names_file);
  if (!text) {
    fmt::print(stderr, "{}\n", text.error().text());
    return 1;
  }
  std::vector<std::string> names;
  for (const std::string_view name : split_words(*text)) {
    names.emplace_back(name);
  }
  std::vector<Target> targets{{.name = "extender", .url = url, .pid = pid, .rounds = {}}};
  if (!other_url.empty()) {
    targets.push_back({.name = "other", .url = other_url, .pid = other_pid, .rounds = {}});
  }
  try {
    return run(std::move(targets), filter_body(names, units), requests, rounds);
  } catch (const std::exception& error) {
    fmt::print(stderr, "extender_http_bench: {}\n", error.what());
    return 1;
  }
}
