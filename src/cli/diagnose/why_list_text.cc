// The text and JSON output of `tessera why` about several pods.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "base/strings.h"
#include "cli/diagnose/check_scheduler.h"
#include "cli/diagnose/why_json.h"
#include "cli/output/json_print.h"
#include "cli/output/table.h"
#include "cli/output/yaml_print.h"

namespace tessera::cli {

namespace {

namespace json = boost::json;

// Pods that wait for the same reason.
struct Group {
  const WhyReport* first = nullptr;
  std::vector<std::string> others{};
};

std::vector<Group> grouped(const std::vector<WhyReport>& reports) {
  std::vector<Group> groups;
  for (const WhyReport& report : reports) {
    const auto same = std::ranges::find_if(groups, [&](const Group& group) {
      return group.first->needs == report.needs && group.first->reason == report.reason &&
             group.first->node == report.node;
    });
    if (same == groups.end()) {
      groups.push_back({.first = &report});
    } else {
      same->others.push_back(report.pod);
    }
  }
  return groups;
}

std::string pods_text(std::size_t count) {
  return fmt::format("{} pod{}", count, count == 1 ? "" : "s");
}

std::string wait_text(std::size_t count) {
  return count == 1 ? "waits" : "wait";
}

// Returns "job ml/train: 3 of 4 pods wait."
std::string title(const WhyList& list) {
  const std::string who = fmt::format("{} {}/{}", list.target.kind, list.namespace_name, list.target.name);
  if (list.pods == 0) {
    return fmt::format("{} has no pods that request GPUs and have not ended.\n", who);
  }
  return list.waiting == 0 ? fmt::format("{}: no pod of {} waits.\n", who, list.pods)
                           : fmt::format("{}: {} of {} {}.\n", who, list.waiting, pods_text(list.pods),
                                         wait_text(list.waiting));
}

std::string controller_text(const WhyList& list, const Terminal& terminal) {
  std::string text = title(list);
  for (const Group& group : grouped(list.reports)) {
    text += "\n" + why_text(*group.first, terminal);
    if (!group.others.empty()) {
      text += fmt::format("The same applies to {}.\n", names_text(group.others));
    }
  }
  return text;
}

// Names the pods that the list leaves out.
std::string elsewhere_text(const WhyList& list) {
  return list.waiting_elsewhere == 0
             ? ""
             : fmt::format("{} {} in other namespaces; -A lists them.\n", pods_text(list.waiting_elsewhere),
                           wait_text(list.waiting_elsewhere));
}

}  // namespace

std::string why_list_text(const WhyList& list, const Terminal& terminal) {
  if (!list.target.is_all()) {
    return controller_text(list, terminal);
  }
  const bool all = list.namespace_name.empty();
  if (list.reports.empty()) {
    return (all ? std::string("No pod waits for a GPU.\n")
                : fmt::format("No pod in namespace {} waits for a GPU.\n", list.namespace_name)) +
           elsewhere_text(list);
  }
  std::vector<Table::Cell> header;
  if (all) {
    header.emplace_back("NAMESPACE");
  }
  for (const char* column : {"POD", "NODE", "NEEDS", "WAITS BECAUSE"}) {
    header.emplace_back(column);
  }
  Table table(std::move(header),
              {.drop = {"NODE", "NEEDS"}, .wrap_last = true, .keys = {"NAMESPACE", "POD"}});
  for (const WhyReport& report : list.reports) {
    const std::size_t slash = report.pod.find('/');
    std::vector<Table::Cell> row;
    if (all) {
      row.emplace_back(report.pod.substr(0, slash));
    }
    row.emplace_back(report.pod.substr(slash + 1));
    row.emplace_back(report.node.empty() ? "-" : report.node);
    row.emplace_back(report.needs.empty() ? "-" : report.needs);
    row.emplace_back(report.reason);
    table.add(std::move(row));
  }
  return table.text(terminal) +
         prose(elsewhere_text(list) + "\"tessera why POD\" explains one of them in detail.", terminal);
}

std::string why_list_json(const WhyList& list, bool yaml) {
  json::object object{{"pods", list.pods}, {"waiting", list.waiting}};
  if (list.target.is_all()) {
    json::array items;
    for (const WhyReport& report : list.reports) {
      items.push_back(json::object{{"pod", report.pod},
                                   {"node", report.node},
                                   {"created", report.created},
                                   {"needs", report.needs},
                                   {"reason", report.reason}});
    }
    object["items"] = std::move(items);
    object["waitingInOtherNamespaces"] = list.waiting_elsewhere;
  } else {
    object["kind"] = list.target.kind;
    object["namespace"] = list.namespace_name;
    object["name"] = list.target.name;
    json::array reports;
    for (const Group& group : grouped(list.reports)) {
      json::object report = why_object(*group.first);
      report["sameFor"] = json::array(group.others.begin(), group.others.end());
      reports.push_back(std::move(report));
    }
    object["items"] = std::move(reports);
  }
  return yaml ? yaml_text(object) : pretty_json(object);
}

}  // namespace tessera::cli
