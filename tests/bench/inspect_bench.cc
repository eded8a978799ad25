// Measures `kubectl inspect` for a cluster of 1,000 nodes with 8 GPUs each and 10,000 pods, from
// saved files and from a local API server, with the real program in its own process. The targets
// are 2 s and 100 MB. The ratio compares with only reading and parsing the same files. The exit
// code is 1 if a target is missed.
#include <fcntl.h>
#include <fmt/format.h>
#include <simdjson.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../base/temporary_directory.h"
#include "base/file.h"
#include "http/event_loop.h"
#include "http/server.h"
#include "kube_bench_objects.h"

namespace tessera::bench {
namespace {

constexpr std::size_t kInspectedNodes = 1000;
constexpr std::size_t kInspectedPods = 10'000;
constexpr std::size_t kPageItems = 500;
constexpr int kRounds = 5;
constexpr double kMostSeconds = 2;
constexpr double kMostMb = 100;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string with(std::string text, const std::string& key, const std::string& more) {
  const std::size_t at = text.find(key);
  if (at == std::string::npos) {
    throw std::runtime_error("no " + key);
  }
  return text.insert(at + key.size(), more);
}

// Adds the allocatable resources that kubelet reports for the agent.
std::string node_of(std::size_t i) {
  return with(node_json(i, i + 1), R"("allocatable":{)",
              R"("aliyun.com/gpu-mem":"640","aliyun.com/gpu":"8","aliyun.com/gpu-count":"8",)");
}

// Returns a pod that is bound to one of the nodes, with the extender's record.
std::string pod_of(std::size_t i) {
  const std::size_t node = i % kInspectedNodes;
  const std::string record = fmt::format(
      R"({{\"v\":1,\"containers\":{{\"main\":[{{\"gpu\":\"GPU-{:08x}-0000-4000-8000-{:012x}\",\"mem\":4}}]}}}})",
      node, 3);
  return with(pod_json(i / kInspectedNodes * kNodes + node, i + 1), R"("annotations":{)",
              fmt::format(R"("tessera.io/allocation":"{}",)", record));
}

// Returns one page of items, with the token for the next page.
std::vector<std::string> pages_of(std::size_t count, std::size_t page_items,
                                  std::string (*make)(std::size_t)) {
  std::vector<std::string> pages;
  for (std::size_t from = 0; from < count; from += page_items) {
    const std::size_t end = std::min(from + page_items, count);
    std::string page =
        fmt::format(R"({{"apiVersion":"v1","kind":"List","metadata":{{"resourceVersion":"1"{}}},"items":[)",
                    end < count ? fmt::format(R"(,"continue":"{}")", pages.size() + 1) : "");
    for (std::size_t i = from; i < end; ++i) {
      page += (i == from ? "" : ",") + make(i);
    }
    pages.push_back(page + "]}");
  }
  return pages;
}

// Serves only the paged lists.
class ListServer {
 public:
  ListServer()
      : nodes_(pages_of(kInspectedNodes, kPageItems, node_of)),
        pods_(pages_of(kInspectedPods, kPageItems, pod_of)) {
    auto made = http::Server::create(loop_, {}, [this](http::Request& request, http::Reply reply) {
      const std::string target(request.target());
      if (target.find("labelSelector=") != std::string::npos) {
        reply.send({.body = R"({"kind":"List","metadata":{"resourceVersion":"1"},"items":[]})"});
        return;
      }
      const std::size_t at = target.find("continue=");
      const std::size_t page = at == std::string::npos ? 0 : std::stoul(target.substr(at + 9));
      reply.send({.body = (target.find("/nodes") != std::string::npos ? nodes_ : pods_).at(page)});
    });
    if (!made) {
      throw std::runtime_error(made.error().text());
    }
    server_.emplace(std::move(*made));
    thread_ = std::thread([this] { loop_.run(); });
  }
  ListServer(const ListServer&) = delete;
  ListServer& operator=(const ListServer&) = delete;
  ~ListServer() {
    loop_.stop();
    thread_.join();
    server_.reset();
  }

  [[nodiscard]] std::string kubeconfig() const {
    return fmt::format(
        "apiVersion: v1\nkind: Config\ncurrent-context: bench\n"
        "clusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:{}\"}}}}]\n"
        "users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: bench, context: {{cluster: c, user: u}}}}]\n",
        server_->port());
  }

 private:
  std::vector<std::string> nodes_;
  std::vector<std::string> pods_;
  http::EventLoop loop_;
  std::optional<http::Server> server_;
  std::thread thread_;
};

struct Run {
  double seconds = 0;
  double cpu_seconds = 0;
  double peak_mb = 0;
};

Run run_program(const std::vector<std::string>& words) {
  const std::string path =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin/tessera").string();
  std::vector<char*> arguments{const_cast<char*>(path.c_str())};
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  const double start = now_s();
  const pid_t child = ::fork();
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDOUT_FILENO);
    ::execv(path.c_str(), arguments.data());
    ::_exit(127);
  }
  int status = 0;
  rusage used{};
  if (::wait4(child, &status, 0, &used) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error(fmt::format("{} {} failed", path, fmt::join(words, " ")));
  }
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return {.seconds = now_s() - start,
          .cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime),
          .peak_mb = static_cast<double>(used.ru_maxrss) / 1024};
}

Run median_run(const std::vector<std::string>& words) {
  std::vector<Run> runs;
  for (int i = 0; i < kRounds; ++i) {
    runs.push_back(run_program(words));
  }
  std::ranges::sort(runs, {}, &Run::seconds);
  return runs[kRounds / 2];
}

// The minimum work of any program that reads these files.
double parse_only(const TemporaryDirectory& saved) {
  std::vector<double> times;
  for (int i = 0; i < kRounds; ++i) {
    const double start = now_s();
    for (const char* name : {"nodes.json", "pods.json"}) {
      simdjson::dom::parser parser;
      simdjson::dom::element document;
      if (parser.load(saved / name).get(document) != simdjson::SUCCESS) {
        throw std::runtime_error("no JSON");
      }
    }
    times.push_back(now_s() - start);
  }
  std::ranges::sort(times);
  return times[kRounds / 2];
}

bool report(const std::string& what, const Run& run, double baseline) {
  const bool met = run.seconds <= kMostSeconds && run.peak_mb <= kMostMb;
  fmt::print("  {:<34} {:>6.0f} ms  (CPU {:>4.0f} ms, {:>4.1f} x parsing)  {:>5.1f} MB  {}\n", what,
             run.seconds * 1e3, run.cpu_seconds * 1e3, run.seconds / baseline, run.peak_mb,
             met ? "met" : "MISSED");
  return met;
}

int run_all() {
  const TemporaryDirectory saved;
  if (!write_file(saved / "nodes.json", pages_of(kInspectedNodes, kInspectedNodes, node_of).front()) ||
      !write_file(saved / "pods.json", pages_of(kInspectedPods, kInspectedPods, pod_of).front())) {
    throw std::runtime_error("cannot write " + saved.path());
  }
  const double baseline = parse_only(saved);
  fmt::print("{} nodes of 8 GPUs, {} pods; bars: {} s, {} MB\n", kInspectedNodes, kInspectedPods,
             kMostSeconds, kMostMb);
  fmt::print("  {:<34} {:>6.0f} ms\n", "reading and parsing the files only", baseline * 1e3);
  bool met = true;
  const std::vector<std::vector<std::string>> forms = {
      {"gpushare"}, {"gpushare", "-d"}, {"gpushare", "-o", "wide"}, {"gpushare", "-o", "json"}, {"gpu"}};
  for (const std::vector<std::string>& form : forms) {
    std::vector<std::string> words{"inspect"};
    words.insert(words.end(), form.begin(), form.end());
    words.insert(words.end(), {"--file", saved.path()});
    met = report(fmt::format("inspect {} --file", fmt::join(form, " ")), median_run(words), baseline) && met;
  }
  const ListServer server;
  if (!write_file(saved / "config", server.kubeconfig())) {
    throw std::runtime_error("cannot write " + saved.path());
  }
  met = report("inspect gpushare, from an API server",
               median_run({"inspect", "gpushare", "--kubeconfig", saved / "config"}), baseline) &&
        met;
  return met ? 0 : 1;
}

}  // namespace
}  // namespace tessera::bench

int main() {
  try {
    return tessera::bench::run_all();
  } catch (const std::exception& problem) {
    fmt::print(stderr, "inspect_bench: {}\n", problem.what());
    return 1;
  }
}
