#include "cli/diagnose/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <utility>

#include "cli/cluster/cluster_ledger.h"
#include "cli/diagnose/request_hints.h"
#include "cli/diagnose/restricted.h"
#include "cli/diagnose/why_context.h"
#include "cli/output/messages.h"

namespace tessera::cli {

namespace {

// Returns the pods of the target, in the order of the cluster.
std::vector<const alloc::PodSpec*> pods_of(const Cluster& cluster, const WhyTarget& target,
                                           const std::string& namespace_name) {
  static const objects::PodDetails kNone;
  std::vector<const alloc::PodSpec*> pods;
  for (const alloc::PodSpec& pod : cluster.pods) {
    const auto details = cluster.details.find(pod.uid);
    if ((namespace_name.empty() || pod.namespace_name == namespace_name) &&
        target.includes(pod, details == cluster.details.end() ? kNone : details->second)) {
      pods.push_back(&pod);
    }
  }
  return pods;
}

// Reads the actual usage on the nodes of running pods.
Usage usage_of(const ClusterOptions& options, const std::vector<const alloc::PodSpec*>& pods) {
  std::set<std::string> nodes;
  for (const alloc::PodSpec* pod : pods) {
    if (alloc::asks_for_gpus(*pod) && pod->phase == alloc::PodPhase::kRunning) {
      nodes.insert(pod->node_name);
    }
  }
  return nodes.empty() ? Usage{} : ask_usage(options, nodes.size() == 1 ? *nodes.begin() : "");
}

Error not_found(const Cluster& cluster, const WhyTarget& target, const std::string& space) {
  const std::string meant = target.meant();
  if (!meant.empty() &&
      std::ranges::find(cluster.pods, space, &alloc::PodSpec::namespace_name) == cluster.pods.end()) {
    return {ErrorCode::kNotFound,
            fmt::format("pod {}/{} does not exist; did you mean {}?", space, target.name, meant)};
  }
  return target.is_pod()
             ? Error(ErrorCode::kNotFound,
                     fmt::format(
                         "pod {}/{} does not exist; list the pods with: kubectl get pods -n {}, or give "
                         "another namespace with -n",
                         space, target.name, space))
             : Error(ErrorCode::kNotFound,
                     fmt::format(
                         "{0} {1}/{2} has no pods; see: kubectl describe {0} {2} -n {1}, or give another "
                         "namespace with -n",
                         target.kind, space, target.name));
}

// Explains the pods that wait, that kubelet refused, or that have a problem.
WhyList explain_all(const WhyContext& context, const std::vector<const alloc::PodSpec*>& pods,
                    const WhyTarget& target, const std::string& space) {
  WhyList list{.target = target, .namespace_name = space};
  NodeJudge judge(context);
  for (const alloc::PodSpec* pod : pods) {
    const bool here = space.empty() || pod->namespace_name == space;
    const bool asks =
        alloc::asks_for_gpus(*pod) || waits_for_unserved(context.cluster, *pod, context.details(*pod));
    if (!asks || (!here && !pod->node_name.empty())) {
      continue;
    }
    if (!here) {
      list.waiting_elsewhere += alloc::occupies(*pod) ? 1 : 0;
      continue;
    }
    list.pods += alloc::occupies(*pod) ? 1 : 0;
    WhyReport report = explain(context, judge, *pod);
    list.waiting += report.waits ? 1 : 0;
    if (report.waits || (!target.is_all() && (report.refused || !report.obstacles.empty()))) {
      list.reports.push_back(std::move(report));
    }
  }
  return list;
}

ClusterQuery query_of(const WhyTarget& target, const std::string& space) {
  ClusterQuery query;
  query.want_pod = [target](const alloc::PodSpec& pod) {
    return alloc::asks_for_gpus(pod) || target.may_include(pod.name);
  };
  query.details = true;
  query.other_gpu_pods = target.is_all();
  query.allow_restricted = true;
  query.own_namespace = space;
  constexpr std::string_view kNameBytes = "abcdefghijklmnopqrstuvwxyz0123456789-.";
  if (!target.is_all() && target.name.find_first_not_of(kNameBytes) == std::string::npos &&
      space.find_first_not_of(kNameBytes.substr(0, kNameBytes.size() - 1)) == std::string::npos) {
    query.ended_in = space;
    query.ended_fields = target.is_pod() ? "metadata.name=" + target.name : "status.phase=Failed";
  }
  return query;
}

// Returns the namespace that the target or the options name; "" if neither does.
std::string wanted_namespace(const WhyTarget& target, const WhyOptions& options) {
  return !target.namespace_name.empty() ? target.namespace_name : options.cluster.namespace_name;
}

Result<std::string> printed(const Cluster& cluster, const WhyTarget& target, const WhyOptions& options,
                            const Terminal& terminal) {
  const std::string wanted = wanted_namespace(target, options);
  const std::string space = !wanted.empty()                                     ? wanted
                            : options.cluster.all_namespaces && target.is_all() ? ""
                                                                                : cluster.default_namespace;
  const alloc::Unit unit = options.unit.empty()
                               ? common_unit(cluster)
                               : TRY(with_context(alloc::Unit::parse(options.unit), "--unit"));
  const bool as_data = options.output == "json" || options.output == "yaml";
  const bool yaml = options.output == "yaml";
  const std::vector<const alloc::PodSpec*> pods = pods_of(cluster, target, target.is_all() ? "" : space);
  if (!target.is_all() && pods.empty()) {
    return fail(not_found(cluster, target, space));
  }
  const WhyContext context(cluster, unit, target.is_all() ? Usage{} : usage_of(options.cluster, pods));
  if (!target.is_pod()) {
    const WhyList list = explain_all(context, pods, target, space);
    return as_data ? why_list_json(list, yaml) : why_list_text(list, terminal);
  }
  NodeJudge judge(context);
  WhyReport report = explain(context, judge, *pods.front());
  add_restricted_facts(options.cluster, cluster, report);
  return as_data ? why_json(report, yaml) : why_text(report, terminal);
}

}  // namespace

int run_why(const WhyOptions& options, std::ostream& out, std::ostream& err, const Terminal& terminal) {
  const Result<WhyTarget> target = WhyTarget::parse(options.pod);
  if (!target) {
    return report_error(target.error(), err);
  }
  return show_cluster(
      options.cluster, query_of(*target, wanted_namespace(*target, options)), options.watch,
      [&](const Cluster& cluster, const Terminal& now) -> Result<Frame> {
        Frame frame{.text = TRY(printed(cluster, *target, options, now.for_output(options.output))),
                    .warnings = cluster.warnings};
        // The answer about one pod has this as its last line.
        if (cluster.restriction.any() && !target->is_pod()) {
          frame.warnings.push_back(cluster.restriction.text());
        }
        return frame;
      },
      out, err, terminal);
}

}  // namespace tessera::cli
