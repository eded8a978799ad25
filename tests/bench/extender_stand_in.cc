#include "extender_stand_in.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "cli/machine/inventory.h"
#include "http/event_loop.h"
#include "http/server.h"

namespace tessera::bench {

namespace {

constexpr std::size_t kPage = 500;
constexpr unsigned kGpus = 8;  // of a DGX-1V

// Simulates the unused parts of real objects: conditions, images, managed fields.
std::string padding(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) {
    text += fmt::format(R"({}"f:field-{}":{{}})", text.empty() ? "" : ",", text.size());
  }
  return fmt::format(R"("managedFields":[{{"manager":"bench","fieldsV1":{{{}}}}}])", text);
}

std::vector<std::string> node_texts(unsigned count) {
  std::ostringstream out;
  std::ostringstream errors;
  if (cli::run_inventory({.machine = "dgx1v", .name = "gpu-node", .count = count, .output = "json"}, out,
                         errors) != 0) {
    throw std::runtime_error(errors.str());
  }
  const boost::json::value list = boost::json::parse(out.str());
  const std::string filler = padding(5'000);
  std::vector<std::string> texts;
  for (const boost::json::value& node : list.at("items").as_array()) {
    std::string text = boost::json::serialize(node);
    text.insert(
        text.find(R"("metadata":{)") + std::string_view(R"("metadata":{)").size(),
        fmt::format(R"("uid":"node-{}","resourceVersion":"{}",{},)", texts.size(), texts.size() + 1, filler));
    texts.push_back(std::move(text));
  }
  return texts;
}

// Returns the GPU UUIDs of a node, from its inventory annotation.
std::vector<std::string> gpus_of(const std::string& node) {
  const boost::json::value parsed = boost::json::parse(node);
  const boost::json::value inventory = boost::json::parse(
      parsed.at("metadata").at("annotations").at("tessera.io/inventory").as_string().c_str());
  std::vector<std::string> gpus;
  for (const boost::json::value& gpu : inventory.at("gpus").as_array()) {
    gpus.emplace_back(gpu.at("uuid").as_string());
  }
  return gpus;
}

std::string pod_text(const std::string& name, const std::string& uid, const std::string& node,
                     const std::string& gpu, unsigned units, const std::string& filler) {
  const std::string record =
      node.empty()
          ? ""
          : fmt::format(
                R"("tessera.io/allocation":"{{\"v\":1,\"containers\":{{\"main\":[{{\"gpu\":\"{}\",\"mem\":{}}}]}}}}",)",
                gpu, units);
  return fmt::format(
      R"({{"metadata":{{"name":"{}","namespace":"default","uid":"{}","resourceVersion":"7",)"
      R"("labels":{{"app":"train","batch.kubernetes.io/job-name":"{}","batch.kubernetes.io/controller-uid":"{}","team":"vision"}},)"
      R"("annotations":{{{}"note":"x"}},{}}},)"
      R"("spec":{{{}"containers":[{{"name":"main","image":"a/b:1","resources":{{"limits":{{"aliyun.com/gpu-mem":"{}"}},)"
      R"("requests":{{"cpu":"1","aliyun.com/gpu-mem":"{}"}}}}}}]}},"status":{{"phase":"{}"}}}})",
      name, uid, name, uid, record, filler, node.empty() ? "" : fmt::format(R"("nodeName":"{}",)", node),
      units, units, node.empty() ? "Pending" : "Running");
}

std::vector<std::string> pod_texts(const StandInCluster& cluster, const std::vector<std::string>& nodes) {
  const std::string filler = padding(1'650);
  std::vector<std::string> texts;
  std::vector<std::string> gpus;
  const unsigned each = nodes.empty() ? 0 : (cluster.pods + cluster.nodes - 1) / cluster.nodes;
  for (unsigned i = 0; i < cluster.pods; ++i) {
    if (i % each == 0) {
      gpus = gpus_of(nodes[i / each]);
    }
    texts.push_back(pod_text(fmt::format("bound-{}", i), fmt::format("bound-uid-{}", i), node_name(i / each),
                             gpus[i % kGpus], 1 + (i * 7) % 19, filler));
  }
  for (unsigned i = 0; i < cluster.waiting; ++i) {
    texts.push_back(pod_text(fmt::format("waiting-{}", i), waiting_uid(i), "", "", 1, filler));
  }
  return texts;
}

std::vector<std::string> pages_of(const std::vector<std::string>& objects) {
  std::vector<std::string> pages;
  for (std::size_t from = 0; from < objects.size(); from += kPage) {
    std::string page = fmt::format(
        R"({{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"9"{}}},"items":[)",
        from + kPage < objects.size() ? fmt::format(R"(,"continue":"{}")", from / kPage + 1) : "");
    for (std::size_t i = from; i < std::min(from + kPage, objects.size()); ++i) {
      page += (i == from ? "" : ",") + objects[i];
    }
    pages.push_back(page + "]}");
  }
  return pages;
}

class Api {
 public:
  explicit Api(const StandInCluster& cluster) {
    const std::vector<std::string> nodes = node_texts(cluster.nodes);
    nodes_ = pages_of(nodes);
    pods_ = pages_of(pod_texts(cluster, nodes));
  }

  void answer(http::Request& request, http::Reply reply) {
    const std::string target(request.target());
    if (request.method() != "GET") {
      reply.send({.status = 201, .body = R"({"kind":"Status","status":"Success"})"});
    } else if (target.find("watch=") != std::string::npos) {
      watches_.push_back(reply.stream({}));
    } else if (!request.path().ends_with("/nodes") && !request.path().ends_with("/pods")) {
      reply.send(
          {.body = R"({"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]})"});
    } else {
      const std::size_t at = target.find("continue=");
      const std::size_t page = at == std::string::npos ? 0 : std::stoul(target.substr(at + 9));
      const bool nodes = request.path().ends_with("/nodes");
      reply.send({.body = (nodes ? nodes_ : pods_).at(page)});
    }
  }

 private:
  std::vector<std::string> nodes_;
  std::vector<std::string> pods_;
  std::vector<http::ReplyStream> watches_;
};

}  // namespace

std::string node_name(unsigned i) {
  return fmt::format("gpu-node-{:04}", i);
}

std::string waiting_uid(unsigned i) {
  return fmt::format("waiting-uid-{}", i);
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), port_(std::exchange(other.port_, std::uint16_t{0})) {}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    end();
    pid_ = std::exchange(other.pid_, 0);
    port_ = other.port_;
  }
  return *this;
}

void Child::end() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
}

Child Child::serving(const std::function<void(const std::function<void(std::uint16_t)>&)>& serve) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe2 failed");
  }
  Child child;
  child.pid_ = ::fork();
  if (child.pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    serve([&](std::uint16_t port) {
      if (::write(ends[1], &port, sizeof(port)) != sizeof(port)) {
        ::_exit(1);
      }
    });
    ::_exit(0);
  }
  ::close(ends[1]);
  const bool started = ::read(ends[0], &child.port_, sizeof(child.port_)) == sizeof(child.port_);
  ::close(ends[0]);
  if (!started) {
    throw std::runtime_error("a child process of the benchmark did not start");
  }
  return child;
}

Child Child::program(const std::vector<std::string>& command, const std::string& log) {
  Child child;
  child.pid_ = ::fork();
  if (child.pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ::dup2(fd, STDOUT_FILENO);
    ::dup2(fd, STDERR_FILENO);
    std::vector<char*> words;
    for (const std::string& word : command) {
      words.push_back(const_cast<char*>(word.c_str()));
    }
    words.push_back(nullptr);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  return child;
}

Child stand_in_api(const StandInCluster& cluster) {
  return Child::serving([&](const std::function<void(std::uint16_t)>& listens) {
    Api api(cluster);
    http::EventLoop loop;
    Result<http::Server> server = http::Server::create(
        loop, {}, [&](http::Request& request, http::Reply reply) { api.answer(request, std::move(reply)); });
    if (server) {
      listens(server->port());
      loop.run();
    }
  });
}

}  // namespace tessera::bench
