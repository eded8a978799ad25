#include "cli/diagnose/restricted.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "alloc/record.h"
#include "base/json_reader.h"
#include "base/strings.h"
#include "cli/cluster/cluster_api.h"
#include "http/event_loop.h"
#include "kube/request.h"

namespace tessera::cli {

namespace {

constexpr std::size_t kMostMessage = 500;
constexpr std::size_t kMostEvents = 200;
constexpr std::size_t kMostBytes = 4U << 20U;

std::string cut(std::string text) {
  if (text.size() > kMostMessage) {
    text.resize(kMostMessage);
    text += "...";
  }
  return text;
}

std::string share_text(const alloc::GpuShare& share, const alloc::ResourceNames& names) {
  return share.whole ? fmt::format("GPU {} (whole)", share.gpu)
                     : fmt::format("GPU {} ({}: {})", share.gpu, names.memory(), share.units);
}

}  // namespace

std::string restricted_needs(const alloc::Request& request, const alloc::ResourceNames& names) {
  std::vector<std::string> parts;
  if (request.gpus.units > 0) {
    parts.push_back(fmt::format("{}: {} on {}", names.memory(), request.gpus.units,
                                request.has_several_parts() ? "one GPU per container"
                                : request.split == 1        ? "one GPU"
                                                     : fmt::format("{} GPUs in equal parts", request.split)));
  }
  if (request.gpus.whole > 0) {
    parts.push_back(fmt::format("{} whole GPU{}", request.gpus.whole, request.gpus.whole == 1 ? "" : "s"));
  }
  return join_words(parts);
}

std::string restricted_bound_answer(const alloc::PodSpec& pod, const alloc::ResourceNames& names) {
  const std::string name = pod.namespace_name + "/" + pod.name;
  std::string answer = fmt::format("{} is not waiting for a GPU: it is on node {}", name, pod.node_name);
  const std::string* text = alloc::find_text(pod.annotations, alloc::key::kAllocation);
  if (text == nullptr) {
    return answer + ". It has no record of its GPUs.";
  }
  const auto request = alloc::GpuRequest::of_pod(pod, names);
  const auto record = alloc::Record::parse(*text);
  if (!request || !record) {
    return answer +
           ". Its record cannot be read: " + (request ? record.error().text() : request.error().text()) + ".";
  }
  const auto held = alloc::held_shares(*request, *record);
  if (!held) {
    return answer + ". Its record does not match its request: " + held.error().text() + ".";
  }
  std::vector<std::string> gpus;
  for (const alloc::GpuShare& share : *held) {
    gpus.push_back(share_text(share, names));
  }
  return fmt::format("{}, with {}, as requested.", answer, join_words(gpus));
}

std::string scheduler_text(const objects::PodDetails& details) {
  const std::string name = details.scheduler_name.empty() ? "its scheduler" : details.scheduler_name;
  return details.scheduling_message.empty()
             ? ""
             : fmt::format("{} says: {}", name, cut(details.scheduling_message));
}

std::vector<PodEvent> tessera_events(const std::string& json) {
  std::vector<PodEvent> events;
  const auto list = parse_json(json, kMostBytes);
  const auto items = list ? JsonReader(*list, "events").array("items", kMostEvents)
                          : Result<std::vector<JsonReader>>(fail(list.error()));
  if (!items) {
    return events;
  }
  for (const JsonReader& item : *items) {
    if (!item.text_or("reportingComponent", "").value_or("").starts_with("tessera-")) {
      continue;
    }
    events.push_back({.reason = item.text_or("reason", "").value_or(""),
                      .message = cut(item.text_or("message", "").value_or("")),
                      .last = item.text_or("lastTimestamp", "").value_or("")});
  }
  std::ranges::stable_sort(events, std::ranges::greater(), &PodEvent::last);
  std::set<std::string> seen;
  std::erase_if(events, [&](const PodEvent& event) { return !seen.insert(event.reason).second; });
  return events;
}

std::vector<PodEvent> read_pod_events(const ClusterOptions& options, const alloc::PodSpec& pod) {
  if (!options.file.empty()) {
    return {};
  }
  http::EventLoop loop;
  auto client = connect(loop, options);
  if (!client) {
    return {};
  }
  kube::Request request = kube::get_request(kube::event_path(pod.namespace_name, ""));
  request.query = fmt::format("limit={}&fieldSelector={}", kMostEvents,
                              kube::percent_encoded("involvedObject.uid=" + pod.uid));
  const auto reply = client->fetch(std::move(request));
  return reply ? tessera_events(std::string(reply->body.text())) : std::vector<PodEvent>{};
}

void add_restricted_facts(const ClusterOptions& options, const Cluster& cluster, WhyReport& report) {
  if (!cluster.restriction.any()) {
    return;
  }
  for (const alloc::PodSpec& pod : cluster.pods) {
    if (pod.namespace_name + "/" + pod.name == report.pod) {
      for (const PodEvent& event : read_pod_events(options, pod)) {
        report.hints.push_back(fmt::format("Event {}: {}", event.reason, event.message));
      }
    }
  }
  report.hints.push_back(cluster.restriction.text());
}

}  // namespace tessera::cli
