#include "agent_bench_node.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "alloc/record.h"

namespace tessera::agent {

namespace {

using boost::json::object;

object pod_json(const std::string& name, const std::string& gpu, int version) {
  const alloc::Record record{.containers = {{.container = "main", .shares = {{.gpu = gpu, .units = 1}}}}};
  return object{
      {"metadata", object{{"namespace", "ml"},
                          {"name", name},
                          {"uid", "uid-" + name},
                          {"resourceVersion", std::to_string(version)},
                          {"annotations", object{{"tessera.io/allocation", record.json()}}}}},
      {"spec", object{{"nodeName", kBenchNode},
                      {"containers",
                       boost::json::array{object{
                           {"name", "main"},
                           {"resources", object{{"limits", object{{"aliyun.com/gpu-mem", "1"}}},
                                                {"requests", object{{"aliyun.com/gpu-mem", "1"}}}}}}}}}},
      {"status", object{{"phase", "Pending"}}}};
}

}  // namespace

BenchApi::BenchApi()
    : node_({{"kind", "Node"},
             {"metadata", object{{"name", kBenchNode}, {"uid", "node-uid"}, {"resourceVersion", "1"}}}}) {
  auto made = http::Server::create(
      loop_, {}, [this](http::Request& request, http::Reply reply) { serve(request, std::move(reply)); });
  if (!made) {
    throw std::runtime_error(made.error().text());
  }
  server_ = std::make_unique<http::Server>(*std::move(made));
  thread_ = std::thread([this] { loop_.run(); });
}

BenchApi::~BenchApi() {
  loop_.stop();
  thread_.join();
  watches_.clear();
  server_.reset();
}

void BenchApi::bind(const std::string& name, const std::string& gpu, bool watched) {
  loop_.call([&] {
    object pod = pod_json(name, gpu, ++version_);
    if (watched) {
      send(pod);
    }
    (watched ? watched_ : unwatched_).push_back(std::move(pod));
  });
}

void BenchApi::catch_up() {
  loop_.call([&] {
    for (const auto& pod : unwatched_) {
      send(pod.as_object());
      watched_.push_back(pod);
    }
    unwatched_.clear();
  });
}

void BenchApi::send(const object& pod) {
  const std::string line = boost::json::serialize(object{{"type", "ADDED"}, {"object", pod}}) + "\n";
  for (http::ReplyStream& watch : watches_) {
    watch.write(line);
  }
}

std::string BenchApi::list(const boost::json::array& items) const {
  return boost::json::serialize(object{{"kind", "PodList"},
                                       {"metadata", object{{"resourceVersion", std::to_string(version_)}}},
                                       {"items", items}});
}

// Applies only the annotations and labels of a merge patch.
http::Response BenchApi::node(const http::Request& request) {
  if (request.method() == "PATCH") {
    const auto patch = boost::json::parse(request.body().text()).as_object();
    if (const auto* metadata = patch.if_contains("metadata")) {
      for (const char* map : {"annotations", "labels"}) {
        const auto* changes = metadata->as_object().if_contains(map);
        auto& kept = node_["metadata"].as_object()[map];
        kept = kept.is_object() ? kept : object();
        for (const auto& [name, value] : changes == nullptr ? object() : changes->as_object()) {
          kept.as_object()[name] = value;
        }
      }
    }
    node_["metadata"].as_object()["resourceVersion"] = std::to_string(++version_);
  }
  return {.body = boost::json::serialize(node_)};
}

void BenchApi::serve(http::Request& request, http::Reply reply) {
  const std::string path(request.path());
  const std::string query(request.query());
  if (path == "/api/v1/pods" && query.find("watch=1") != std::string::npos) {
    watches_.push_back(reply.stream({}));
  } else if (path == "/api/v1/pods") {
    const bool pending = query.find("Pending") != std::string::npos;
    reply.send({.body = list(pending ? unwatched_ : watched_)});
  } else if (path.starts_with("/api/v1/nodes/")) {
    reply.send(node(request));
  } else if (request.method() == "POST") {
    reply.send({.status = 201, .body = std::string(request.body().text())});
  } else {
    reply.send({.status = 404, .body = R"({"kind":"Status","reason":"NotFound","code":404})"});
  }
}

BenchPodResources::BenchPodResources(const std::string& socket) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    throw std::runtime_error("cannot listen on " + socket);
  }
}

BenchPodResources::~BenchPodResources() {
  server_->Shutdown(std::chrono::system_clock::now());
}

grpc::Status BenchPodResources::Get(grpc::ServerContext* /*context*/,
                                    const v1::GetPodResourcesRequest* request,
                                    v1::GetPodResourcesResponse* response) {
  const std::string& name = request->pod_name();
  if (std::strtol(name.c_str() + 1, nullptr, 10) >= known_) {
    return {grpc::StatusCode::UNKNOWN, "pod " + name + " in namespace ml not found"};
  }
  v1::PodResources& pod = *response->mutable_pod_resources();
  pod.set_name(name);
  pod.set_namespace_(request->pod_namespace());
  pod.add_containers()->set_name("main");
  return grpc::Status::OK;
}

BenchProcess::BenchProcess(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  if (pid_ < 0) {
    throw std::runtime_error("cannot start " + command.front());
  }
}

BenchProcess::~BenchProcess() {
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
}

bool BenchProcess::runs() const {
  return ::kill(pid_, 0) == 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0;
}

double BenchProcess::resident_mb() const {
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) {
      return std::strtod(line.c_str() + 6, nullptr) * 1024 / 1e6;
    }
  }
  throw std::runtime_error("the agent has ended");
}

double BenchProcess::cpu_seconds() const {
  std::ifstream file(fmt::format("/proc/{}/stat", pid_));
  std::string text;
  std::getline(file, text);
  // The program name may contain any character. Field 3 follows the closing parenthesis.
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) {
    fields >> skipped;
  }
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace tessera::agent
