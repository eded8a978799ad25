// The report of `tessera savings` for programs.
#include <boost/json.hpp>
#include <cmath>

#include "cli/output/json_print.h"
#include "cli/output/yaml_print.h"
#include "cli/savings/savings_words.h"

namespace tessera::cli {

namespace json = boost::json;

namespace {

json::array texts(const std::vector<std::string>& lines) {
  json::array array;
  for (const std::string& line : lines) {
    array.emplace_back(line);
  }
  return array;
}

// Rounds to hundredths, so that the output does not show noise of floating point.
json::value number(const std::optional<double>& value) {
  return value ? json::value(std::round(*value * 100) / 100) : json::value(nullptr);
}

json::object group_json(const SavingsGroup& group) {
  json::object one;
  one["pool"] = group.pool;
  one["model"] = group.model;
  one["gpuMemoryMiB"] = group.memory_mib ? json::value(*group.memory_mib) : json::value(nullptr);
  one["nodes"] = group.nodes;
  one["gpus"] = group.gpus;
  one["unallocated"] = group.unallocated();
  one["held"] = group.held;
  one["idle"] = group.idle;
  one["sharedNow"] = group.shared_now;
  one["needed"] = group.needed();
  one["whole"] = group.whole;
  one["shared"] = group.shared;
  one["alone"] = group.alone;
  one["saved"] = group.saved();
  one["atLeast"] = group.at_least;
  one["freedNodes"] = texts(group.freed_nodes);
  one["freedNodeGpus"] = group.freed_node_gpus;
  one["emptyNodes"] = group.empty_nodes;
  one["emptyNodeGpus"] = group.empty_node_gpus;
  one["pricePerHour"] = number(group.price);
  return one;
}

json::object pod_json(const SavingsPod& pod, const SavingsView& view) {
  json::object one;
  one["namespace"] = pod.namespace_name;
  one["name"] = pod.name;
  one["node"] = pod.node;
  one["gpus"] = pod.gpus;
  one["memoryMiB"] = number(pod.memory_mib);
  one["utilizationPercent"] = number(pod.utilization_percent);
  one["idleGpus"] = pod.idle_gpus;
  if (pod.whole) {
    one["whole"] =
        json::object{{"reason", to_string(*pod.whole)}, {"text", whole_text(*pod.whole, view.rules)}};
  } else {
    json::object share{{"units", pod.units}, {"node", pod.new_node}, {"gpu", pod.new_gpu}};
    if (!pod.alone.empty()) {
      json::array why;
      for (const Alone limit : pod.alone) {
        why.emplace_back(to_string(limit));
      }
      share["alone"] = json::object{{"reasons", std::move(why)}, {"text", alone_text(pod.alone, view.rules)}};
    }
    one["share"] = std::move(share);
  }
  return one;
}

json::object money_json(const SavingsView& view, const Money& worth) {
  return {{"currency", view.currency},
          {"freedGpusPerHour", number(worth.freed.known)},
          {"freedNodesPerHour", number(worth.nodes.known)},
          {"emptyNodesPerHour", number(worth.empty.known)},
          {"modelsWithoutPrice", texts(worth.freed.unpriced)}};
}

json::array policies_json(const SavingsReport& report) {
  json::array policies;
  for (const PolicyOutcome& one : report.outcomes) {
    policies.push_back(json::object{{"policy", alloc::to_string(one.policy)},
                                    {"needed", one.gpus},
                                    {"fewestInRandomOrders", one.fewest},
                                    {"mostInRandomOrders", one.most},
                                    {"freedNodes", one.freed_nodes}});
  }
  return policies;
}

json::array shared_json(const SavingsReport& report) {
  json::array gpus;
  for (const SharedGpu& gpu : report.shared) {
    json::array pods;
    for (const std::size_t pod : gpu.pods) {
      pods.emplace_back(report.pods[pod].text());
    }
    gpus.push_back(json::object{{"node", gpu.node},
                                {"gpu", gpu.index},
                                {"totalUnits", gpu.total_units},
                                {"usedUnits", gpu.used_units},
                                {"sharedNow", gpu.shared_now},
                                {"pods", std::move(pods)}});
  }
  return gpus;
}

}  // namespace

std::string savings_json(const SavingsView& view, bool yaml) {
  const SavingsReport& report = view.report;
  json::object root;
  root["v"] = 1;
  root["answer"] = headline(view);
  root["consequences"] = texts(consequences(view));
  root["unit"] = view.rules.unit.text();
  root["gpus"] = report.gpus;
  root["held"] = report.held;
  root["idle"] = report.idle();
  root["needed"] = report.needed;
  root["saved"] = report.saved();
  root["unknownPods"] = unknown_pods(view);
  root["alreadyShared"] = report.already_shared;
  if (const auto worth = money(view)) {
    root["money"] = money_json(view, *worth);
  }
  json::array pools;
  for (const SavingsGroup& group : report.groups) {
    pools.push_back(group_json(group));
  }
  root["pools"] = std::move(pools);
  root["policies"] = policies_json(report);
  json::array whole;
  for (const WholeRow& row : whole_rows(view)) {
    whole.push_back(json::object{{"reason", to_string(row.why)},
                                 {"text", whole_text(row.why, view.rules)},
                                 {"pods", row.pods.size()},
                                 {"gpus", row.gpus}});
  }
  root["whole"] = std::move(whole);
  root["sharedGpus"] = shared_json(report);
  json::array pods;
  for (const SavingsPod& pod : report.pods) {
    pods.push_back(pod_json(pod, view));
  }
  root["pods"] = std::move(pods);
  root["migPods"] = report.mig_pods;
  root["migDevices"] = report.mig_devices;
  root["timeSlicedPods"] = report.sliced_pods;
  root["waitingPods"] = report.waiting_pods;
  root["waitingGpus"] = report.waiting_gpus;
  root["otherPodsOnFreedNodes"] = report.other_pods_on_freed_nodes;
  root["confidence"] = texts(confidence(view));
  root["assumptions"] = texts(assumptions(view));
  root["leftOut"] = texts(left_out(view));
  root["warnings"] = texts(report.warnings);
  return yaml ? yaml_text(root) : pretty_json(root);
}

}  // namespace tessera::cli
