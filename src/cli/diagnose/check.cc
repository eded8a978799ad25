#include "cli/diagnose/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <tuple>
#include <utility>

#include "base/strings.h"
#include "cli/cluster/cluster_books.h"
#include "cli/diagnose/check_scheduler.h"
#include "cli/output/json_print.h"
#include "cli/output/table.h"
#include "cli/output/yaml_print.h"

namespace tessera::cli {

namespace {

class Auditor {
 public:
  Auditor(const Cluster& cluster, alloc::Unit unit, const std::vector<std::string>& nodes)
      : cluster_(cluster), books_(make_books(cluster, unit)), asked_(nodes.begin(), nodes.end()) {}

  CheckReport report(const CheckAnswers& answers) {
    check_agents(answers.allocations);
    for (Finding& finding : check_schedulers(cluster_, answers.now)) {
      add(std::move(finding));
    }
    for (Finding& finding : check_versions(answers)) {
      add(std::move(finding));
    }
    if (auto finding = check_lease(answers)) {
      add(*std::move(finding));
    }
    check_records();
    for (const objects::NodeFacts& node : cluster_.nodes) {
      check_node(node);
    }
    check_orphans();
    for (const std::string& warning : cluster_.warnings) {
      add({.serious = true, .kind = "unreadable_object", .node = "", .pod = "", .text = warning});
    }
    std::erase_if(report_.findings, [&](const Finding& finding) { return !is_asked(finding.node); });
    std::ranges::sort(report_.findings, {}, [](const Finding& one) {
      return std::tuple(!one.serious, one.kind, one.node, one.pod, one.text);
    });
    return std::move(report_);
  }

 private:
  [[nodiscard]] bool is_asked(const std::string& node) const {
    return asked_.empty() || asked_.contains(node);
  }
  void add(Finding finding) { report_.findings.push_back(std::move(finding)); }
  void add_node_finding(const objects::NodeFacts& node, bool serious, std::string kind, std::string text) {
    add({.serious = serious,
         .kind = std::move(kind),
         .node = node.spec.name,
         .pod = "",
         .text = fmt::format("node {}: {}", node.spec.name, text)});
  }

  // What the books find wrong with records and inventories.
  void check_records() {
    constexpr std::size_t kAll = 1'000'000;
    for (alloc::Problem& problem : books_->problems(kAll)) {
      add({.serious = true,
           .kind = std::string(to_string(problem.kind)),
           .node = std::move(problem.node),
           .pod = std::move(problem.pod),
           .text = std::move(problem.text)});
    }
  }

  // What kubelet was given, as the agents that gave it remember. Those that do not tell are told together:
  // mostly all have the same reason, a missing right.
  void check_agents(const std::vector<AgentAnswer>& agents) {
    std::map<ErrorCode, Silence> silent;
    for (const AgentAnswer& agent : agents) {
      if (!is_asked(agent.node)) {
        continue;
      }
      const auto given = agent.body ? parse_given(*agent.body)
                                    : Result<std::vector<GivenContainer>>(fail(agent.body.error()));
      if (!given) {
        Silence& silence = silent[given.error().code()];
        if (silence.nodes++ == 0) {
          silence.node = agent.node;
          silence.why = given.error().text();
        }
        continue;
      }
      for (const GivenContainer& container : *given) {
        check_given(agent.node, container);
      }
    }
    for (const auto& [code, silence] : silent) {
      add({.serious = false,
           .kind = "agent_silent",
           .node = silence.node,
           .pod = "",
           .text =
               silence.nodes == 1
                   ? fmt::format("node {}: its agent cannot be asked what it gave out: {}", silence.node,
                                 silence.why)
                   : fmt::format("node {} and {} more: their agents cannot be asked what they gave out: {}",
                                 silence.node, silence.nodes - 1, silence.why)});
    }
  }

  void check_given(const std::string& node, const GivenContainer& given) {
    if (!given.held.empty()) {
      add({.serious = false,
           .kind = "held",
           .node = node,
           .pod = given.pod,
           .text = given.pod.empty()
                       ? fmt::format("node {}: a container of a pod that is not known yet waits: {}", node,
                                     given.held)
                       : fmt::format("pod {}: container {} waits on node {}: {}", given.pod, given.container,
                                     node, given.held)});
    }
    // A pod that the list does not show has come or gone meanwhile.
    const auto holding = books_->holding(given.uid);
    if (!holding || !holding->decided) {
      return;
    }
    for (const std::string& gpu : given.gpus) {
      if (std::ranges::none_of(holding->parts, [&](const auto& part) { return part.gpu == gpu; })) {
        add({.serious = true,
             .kind = "given_elsewhere",
             .node = node,
             .pod = given.pod,
             .text =
                 fmt::format("pod {}: container {} was given {}, which its record does not name; delete the "
                             "pod, so that it is placed anew",
                             given.pod, given.container, gpu)});
      }
    }
  }

  void check_node(const objects::NodeFacts& node) {
    const auto id = books_->find_node(node.spec.name);
    const std::size_t gpus = id ? books_->gpus(*id).size() : 0;
    if (gpus == 0) {
      check_node_without_gpus(node, id);
      return;
    }
    const auto holdings = books_->holdings(*id);
    if (is_asked(node.spec.name)) {
      ++report_.nodes;
      report_.gpus += gpus;
      report_.pods += holdings.size();
    }
    check_kubelet(node, *id);
    check_health(node, *id, holdings);
    if (node.spec.inventory.empty()) {
      add_node_finding(node, false, "old_plugin",
                       "has the old device plugin: only shares of one GPU, and no health, are known here; "
                       "tessera-agent can take its place");
    }
  }

  void check_node_without_gpus(const objects::NodeFacts& node, std::optional<alloc::NodeId> id) {
    const bool readable = !id || books_->states().fence(*id) != alloc::Fence::kUnreadable;
    const auto label = node.labels.find("gpushare");
    if (readable && label != node.labels.end() && label->second == "true") {
      add_node_finding(node, true, "no_agent",
                       "is labelled gpushare=true but has no GPUs that anybody told of; see the logs of "
                       "tessera-agent there, or take the label away");
    }
  }

  // Kubelet knows of GPUs through the device plugin, the scheduler through the inventory.
  void check_kubelet(const objects::NodeFacts& node, alloc::NodeId id) {
    const alloc::NodeView view = books_->view(id);
    const auto promised = static_cast<std::int64_t>(view.total_units);
    // The books take this for a plugin that is just starting.
    if (!node.spec.inventory.empty() && node.spec.gpu_memory_units == 0 && promised > 0) {
      add_node_finding(
          node, true, "capacity_differs",
          fmt::format("{} is 0 but its inventory says {} on {} GPUs; restart tessera-agent there",
                      books_->options().names.memory(), promised, view.size()));
    }
    if (node.spec.gpu_memory_units > 0 && node.allocatable_units == 0) {
      add_node_finding(
          node, true, "nothing_allocatable",
          "kubelet gives out no GPU memory: its device plugin is gone or all GPUs are unhealthy");
    }
    if (!node.ready) {
      add_node_finding(node, false, "not_ready", "is not ready");
    }
  }

  void check_health(const objects::NodeFacts& node, alloc::NodeId id,
                    const std::vector<alloc::PodHolding>& holdings) {
    for (unsigned slot = 0; slot < books_->gpus(id).size(); ++slot) {
      const std::string_view unhealthy = books_->unhealthy(id, slot);
      if (unhealthy.empty()) {
        continue;
      }
      std::vector<std::string> pods;
      for (const alloc::PodHolding& holding : holdings) {
        if (std::ranges::any_of(holding.parts,
                                [&](const auto& part) { return part.slot == static_cast<int>(slot); })) {
          pods.push_back(holding.pod.text());
        }
      }
      add_node_finding(
          node, !pods.empty(), "unhealthy",
          fmt::format("GPU {} is unhealthy: {}{}", books_->gpus(id)[slot].index, unhealthy,
                      pods.empty() ? std::string() : fmt::format("; on it: {}", fmt::join(pods, ", "))));
    }
  }

  void check_orphans() {
    std::set<std::string_view> names;
    for (const objects::NodeFacts& node : cluster_.nodes) {
      names.insert(node.spec.name);
    }
    for (const alloc::PodSpec& pod : cluster_.pods) {
      if (!pod.node_name.empty() && alloc::occupies(pod) && !names.contains(pod.node_name)) {
        const std::string name = pod.pod_namespace + "/" + pod.name;
        add({.serious = true,
             .kind = "orphan",
             .node = pod.node_name,
             .pod = name,
             .text = fmt::format("pod {} is on node {}, which does not exist; delete it with: kubectl delete "
                                 "pod {} -n {} --force",
                                 name, pod.node_name, pod.name, pod.pod_namespace)});
      }
    }
  }

  // Agents that do not answer, for one kind of reason.
  struct Silence {
    std::string node;  // the first
    std::string why;   // in its case
    std::size_t nodes = 0;
  };

  const Cluster& cluster_;
  std::unique_ptr<alloc::Ledger> books_;
  std::set<std::string, std::less<>> asked_;
  CheckReport report_;
};

std::string check_text(const CheckReport& report, const Terminal& terminal) {
  const auto serious = std::ranges::count(report.findings, true, &Finding::serious);
  const auto minor = static_cast<std::ptrdiff_t>(report.findings.size()) - serious;
  const auto counted = [](auto count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  std::string text = fmt::format("{} with {}, {} on them\n", counted(report.nodes, "node"),
                                 counted(report.gpus, "GPU"), counted(report.pods, "pod"));
  if (!report.findings.empty()) {
    Table table({"", "WHAT", "WHERE AND WHAT TO DO"});
    for (const Finding& finding : report.findings) {
      table.add({finding.serious ? Table::Cell("ERROR", Colour::kRed) : Table::Cell("note", Colour::kYellow),
                 finding.kind, finding.text});
    }
    text += "\n" + table.text(terminal) + "\n";
  }
  return text + (report.findings.empty() ? "All agrees.\n"
                                         : counted(serious, "error") + ", " + counted(minor, "note") + "\n");
}

boost::json::value check_json(const CheckReport& report) {
  boost::json::array findings;
  for (const Finding& finding : report.findings) {
    findings.push_back(boost::json::object{{"serious", finding.serious},
                                           {"kind", finding.kind},
                                           {"node", finding.node},
                                           {"pod", finding.pod},
                                           {"text", finding.text}});
  }
  return boost::json::object{{"nodes", report.nodes},
                             {"gpus", report.gpus},
                             {"pods", report.pods},
                             {"findings", std::move(findings)}};
}

// Versions are asked for only where somebody answers at all: each question may take seconds to fail.
CheckAnswers ask(const ClusterOptions& options, const Cluster& cluster,
                 std::vector<AgentAnswer> allocations) {
  CheckAnswers answers;
  const auto lease = lease_of(cluster);
  if (lease && options.file.empty()) {
    answers.lease = lease->first + "/" + lease->second;
    answers.lease_body = ask_lease(options, lease->first, lease->second);
  }
  answers.allocations = std::move(allocations);
  const bool reachable =
      std::ranges::any_of(answers.allocations, [](const AgentAnswer& one) { return one.body.has_value(); });
  if (reachable) {
    answers.agent_versions =
        ask_pods(options, Asked::kAgents, "version").value_or(std::vector<AgentAnswer>());
    answers.placer_versions =
        ask_pods(options, Asked::kPlacers, "version").value_or(std::vector<AgentAnswer>());
  }
  return answers;
}

Result<CheckReport> checked(const CheckOptions& options) {
  ClusterQuery query;
  query.details = true;
  const Cluster cluster = TRY(read_cluster(options.cluster, query));
  const alloc::Unit unit = options.unit.empty()
                               ? common_unit(cluster)
                               : TRY(with_context(alloc::Unit::parse(options.unit), "--unit"));
  for (const std::string& name : options.nodes) {
    if (std::ranges::none_of(cluster.nodes,
                             [&](const objects::NodeFacts& node) { return node.spec.name == name; })) {
      return fail(ErrorCode::kNotFound, fmt::format("node {} does not exist", name));
    }
  }
  return check_cluster(
      cluster, unit,
      ask(options.cluster, cluster, TRY(ask_pods(options.cluster, Asked::kAgents, "allocations"))),
      options.nodes);
}

}  // namespace

CheckReport check_cluster(const Cluster& cluster, alloc::Unit unit, const CheckAnswers& answers,
                          const std::vector<std::string>& nodes) {
  return Auditor(cluster, unit, nodes).report(answers);
}

int run_check(const CheckOptions& options, std::ostream& out, std::ostream& err, const Terminal& terminal) {
  const auto report = checked(options);
  if (!report) {
    err << "error: " << report.error().text() << "\n";
    return 1;
  }
  if (options.output == "text") {
    out << check_text(*report, terminal);
  } else {
    const boost::json::value value = check_json(*report);
    out << (options.output == "yaml" ? yaml_text(value) : pretty_json(value));
  }
  out << std::flush;
  const bool wrong = std::ranges::any_of(report->findings, &Finding::serious);
  return wrong ? kFoundProblems : 0;
}

}  // namespace tessera::cli
