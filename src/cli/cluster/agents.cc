#include "cli/cluster/agents.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <tuple>

#include "base/json_reader.h"
#include "base/strings.h"
#include "cli/cluster/cluster_api.h"
#include "cli/cluster/own_namespace.h"
#include "http/event_loop.h"
#include "kube/request.h"

namespace tessera::cli {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostPorts = 1000;
constexpr auto kTimeout = 3s;
constexpr std::size_t kMostBytes = 256U << 20U;       // of the list of pods
constexpr std::size_t kMostAnswerBytes = 16U << 20U;  // of one pod's answer
constexpr std::size_t kMostPods = 100'000;
constexpr std::size_t kMostContainers = 100'000;

// The chart sets these labels; other manifests must set them too for their pods to be found.
constexpr std::string_view kOwnLabels =
    "app.kubernetes.io/name=tessera,app.kubernetes.io/component in (agent,scheduler,extender)";

// The API server's proxy needs a port number, which is looked up by the name of the container's port.
struct PodLookup {
  std::string_view port_name;
  std::int64_t default_port;
  const char* what;
};

const PodLookup& lookup_of(PodKind kind) {
  static constexpr PodLookup kAgents{"metrics", 39997, "list the agents' pods"};
  static constexpr PodLookup kPlacers{"health", 39998, "list the extenders' pods"};
  return kind == PodKind::kAgents ? kAgents : kPlacers;
}

struct TesseraPod {
  std::string namespace_name;
  std::string name;
  std::string node;
  std::int64_t port = 0;
};

Result<std::int64_t> port_of(const JsonReader& spec, const PodLookup& kind) {
  for (const JsonReader& container : TRY(spec.array("containers", kMostPorts))) {
    if (!container.has("ports")) {
      continue;
    }
    for (const JsonReader& port : TRY(container.array("ports", kMostPorts))) {
      if (TRY(port.text_or("name", "")) == kind.port_name) {
        return port.integer("containerPort", 1, 65535);
      }
    }
  }
  return kind.default_port;
}

// Finds the running pods of Tessera, in its own namespace only.
Result<std::vector<TesseraPod>> find_pods(kube::Client& client, PodKind kind, const std::string& wanted) {
  const PodLookup& lookup = lookup_of(kind);
  OwnNamespace own(wanted);
  kube::Request request = kube::get_request(kube::pod_path("", ""));
  request.query = "labelSelector=" + kube::percent_encoded(kOwnLabels);
  request.deadline = 10s;
  request.what = lookup.what;
  const kube::Reply reply = TRY(client.fetch(std::move(request)));
  const boost::json::value document = TRY(parse_json(reply.body.text(), kMostBytes));
  std::vector<TesseraPod> pods;
  const JsonReader list(document, "pods");
  for (const JsonReader& pod : TRY(list.array("items", kMostPods))) {
    const JsonReader meta = TRY(pod.object("metadata"));
    const JsonReader spec = TRY(pod.object("spec"));
    const JsonReader status = TRY(pod.object("status"));
    const JsonReader labels = TRY(meta.object("labels"));
    const bool agent = TRY(labels.text("app.kubernetes.io/component")) == "agent";
    const std::string space = TRY(meta.text("namespace"));
    agent ? own.add_agent(space) : own.add_placer(space);
    if (agent == (kind == PodKind::kAgents) && spec.has("nodeName") && status.has("phase") &&
        TRY(status.text("phase")) == "Running") {
      pods.push_back({.namespace_name = space,
                      .name = TRY(meta.text("name")),
                      .node = TRY(spec.text("nodeName")),
                      .port = TRY(port_of(spec, lookup))});
    }
  }
  std::erase_if(pods,
                [own_name = own.name()](const TesseraPod& pod) { return pod.namespace_name != own_name; });
  return pods;
}

// One line of metrics: name{label="value",...} number.
struct Sample {
  std::string_view name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

// Parses the labels after the opening brace. Removes them and the closing brace from `line`.
bool read_labels(std::string_view& line, std::map<std::string, std::string>& labels) {
  while (!line.empty() && line.front() != '}') {
    const std::size_t equals = line.find("=\"");
    if (equals == std::string_view::npos) {
      return false;
    }
    const std::string name(line.substr(0, equals));
    line.remove_prefix(equals + 2);
    std::string value;
    while (!line.empty() && line.front() != '"') {
      if (line.front() == '\\' && line.size() > 1) {
        line.remove_prefix(1);
        value.push_back(line.front() == 'n' ? '\n' : line.front());
      } else {
        value.push_back(line.front());
      }
      line.remove_prefix(1);
    }
    if (line.empty()) {
      return false;
    }
    line.remove_prefix(1);
    labels.emplace(name, std::move(value));
    if (line.starts_with(',')) {
      line.remove_prefix(1);
    }
  }
  if (line.empty()) {
    return false;
  }
  line.remove_prefix(1);
  return true;
}

bool read_sample(std::string_view line, Sample& sample) {
  if (line.empty() || line.front() == '#') {
    return false;
  }
  const std::size_t end = line.find_first_of("{ ");
  if (end == std::string_view::npos) {
    return false;
  }
  sample.name = line.substr(0, end);
  sample.labels.clear();
  line.remove_prefix(end);
  if (line.front() == '{') {
    line.remove_prefix(1);
    if (!read_labels(line, sample.labels)) {
      return false;
    }
  }
  line = trim(line);
  return std::from_chars(line.data(), line.data() + line.size(), sample.value).ec == std::errc();
}

constexpr double kMib = 1024.0 * 1024.0;

// The metrics of one container on one GPU.
struct ContainerUse {
  std::string gpu;
  double used_mib = 0;
  double allowed_mib = 0;
  bool exceeded = false;
};

}  // namespace

Result<std::vector<PodAnswer>> ask_pods(const ClusterOptions& options, PodKind kind, std::string_view page,
                                        std::string_view node) {
  std::vector<PodAnswer> answers;
  if (!options.file.empty()) {
    return answers;
  }
  http::EventLoop loop;
  kube::Client client = TRY(connect(loop, options));
  std::vector<TesseraPod> pods = TRY(find_pods(client, kind, options.tessera_namespace));
  std::erase_if(pods, [&](const TesseraPod& pod) { return !node.empty() && pod.node != node; });
  std::vector<kube::Call> calls(pods.size());
  std::size_t open = pods.size();
  for (const TesseraPod& pod : pods) {
    answers.push_back({.node = pod.node,
                       .body = fail(ErrorCode::kTimeout, "no answer"),
                       .pod = pod.namespace_name + "/" + pod.name});
  }
  for (std::size_t i = 0; i < pods.size(); ++i) {
    const TesseraPod& pod = pods[i];
    kube::Request request = kube::get_request(
        fmt::format("{}:{}/proxy/{}", kube::pod_path(pod.namespace_name, pod.name), pod.port, page));
    request.deadline = kTimeout;
    request.max_attempts = 1;
    request.max_response_bytes = kMostAnswerBytes;
    calls[i] = client.send(std::move(request), [&, i](Result<kube::Reply> reply) {
      --open;
      answers[i].body = reply ? Result<std::string>(std::string(reply->body.text()))
                              : Result<std::string>(fail(std::move(reply).error()));
    });
  }
  loop.run_until([&] { return open == 0; }, kTimeout + 1s);
  return answers;
}

Result<std::string> ask_lease(const ClusterOptions& options, const std::string& namespace_name,
                              const std::string& name) {
  http::EventLoop loop;
  kube::Client client = TRY(connect(loop, options));
  kube::Request request = kube::get_request(kube::lease_path(namespace_name, name));
  request.deadline = kTimeout;
  request.max_attempts = 1;
  const kube::Reply reply = TRY(client.fetch(std::move(request)));
  return std::string(reply.body.text());
}

void read_usage(std::string_view metrics, Usage& usage) {
  Sample sample;
  std::map<std::tuple<std::string, std::string, std::string>, ContainerUse> containers;
  for (const std::string_view line : split(metrics, '\n')) {
    if (!line.starts_with("tessera_") || !read_sample(line, sample)) {
      continue;
    }
    const std::string& uuid = sample.labels["uuid"];
    const bool used = sample.name == "tessera_container_gpu_memory_used_bytes";
    const bool allowed = sample.name == "tessera_container_gpu_memory_allocated_bytes";
    if (used || allowed || sample.name == "tessera_container_gpu_memory_exceeded") {
      const std::string pod = sample.labels["namespace"] + "/" + sample.labels["pod"];
      ContainerUse& container = containers[{pod, sample.labels["container"], uuid}];
      container.gpu = sample.labels["gpu"];
      if (used) {
        container.used_mib = sample.value / kMib;
        usage.pod_memory_mib[pod] += container.used_mib;
      } else if (allowed) {
        container.allowed_mib = sample.value / kMib;
      } else {
        container.exceeded = sample.value > 0;
      }
      continue;
    }
    if (sample.name == "tessera_gpu_memory_used_bytes") {
      usage.gpus[uuid].memory_mib = sample.value / kMib;
    } else if (sample.name == "tessera_gpu_utilization_ratio") {
      usage.gpus[uuid].duty_percent = sample.value * 100;
    }
  }
  for (const auto& [key, use] : containers) {
    if (use.exceeded) {
      usage.exceeded[std::get<0>(key)].push_back({.container = std::get<1>(key),
                                                  .gpu = use.gpu,
                                                  .used_mib = use.used_mib,
                                                  .allowed_mib = use.allowed_mib});
    }
  }
}

Usage ask_usage(const ClusterOptions& options, std::string_view node) {
  Usage usage;
  const auto answers = ask_pods(options, PodKind::kAgents, "metrics", node);
  if (!answers) {
    usage.problems.push_back("actual GPU usage is unknown: " + answers.error().text());
    return usage;
  }
  read_usage(*answers, usage);
  return usage;
}

void read_usage(const std::vector<PodAnswer>& answers, Usage& usage) {
  std::size_t silent = 0;
  for (const PodAnswer& answer : answers) {
    if (answer.body) {
      read_usage(*answer.body, usage);
    } else if (++silent == 1) {
      usage.problems.push_back(
          fmt::format("actual GPU usage on node {} is unknown: {}", answer.node, answer.body.error().text()));
    }
  }
  if (silent > 1) {
    usage.problems.push_back(fmt::format("actual GPU usage on {} more nodes is unknown", silent - 1));
  }
}

Result<std::vector<ContainerAllocation>> parse_allocations(std::string_view text) {
  const boost::json::value document = TRY(parse_json(text, kMostBytes));
  std::vector<ContainerAllocation> all;
  for (const JsonReader& entry : TRY(JsonReader(document, "").array("allocations", kMostContainers))) {
    const std::string name = TRY(entry.text("pod"));
    ContainerAllocation one{.pod = name.empty() ? "" : TRY(entry.text("namespace")) + "/" + name,
                            .uid = TRY(entry.text("uid")),
                            .container = TRY(entry.text("container"))};
    for (const JsonReader& gpu : TRY(entry.array("gpus", 64))) {
      one.gpus.push_back(TRY(gpu.text("uuid")));
    }
    std::ranges::sort(one.gpus);
    if (entry.has("held")) {
      one.start_block = TRY(entry.text("held"));
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace tessera::cli
