#include "cli/diagnose/why_target.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/nearest_name.h"
#include "base/strings.h"

namespace tessera::cli {

namespace {

// The names that kubectl accepts, and the kind in lower case.
constexpr std::array<std::pair<std::string_view, std::string_view>, 21> kKinds = {{
    {"po", "pod"},
    {"pod", "pod"},
    {"pods", "pod"},
    {"job", "job"},
    {"jobs", "job"},
    {"deploy", "deployment"},
    {"deployment", "deployment"},
    {"deployments", "deployment"},
    {"sts", "statefulset"},
    {"statefulset", "statefulset"},
    {"statefulsets", "statefulset"},
    {"rs", "replicaset"},
    {"replicaset", "replicaset"},
    {"replicasets", "replicaset"},
    {"ds", "daemonset"},
    {"daemonset", "daemonset"},
    {"daemonsets", "daemonset"},
    {"cj", "cronjob"},
    {"cronjob", "cronjob"},
    {"cronjobs", "cronjob"},
    {"rc", "replicationcontroller"},
}};

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// Returns the kind that "deploy" or "Deployment.apps" names; empty if it names none.
std::string_view kind_of(std::string_view word) {
  const std::string name = lower(word.substr(0, word.find('.')));
  const auto* const found =
      std::ranges::find(kKinds, name, &std::pair<std::string_view, std::string_view>::first);
  return found == kKinds.end() ? std::string_view() : found->second;
}

}  // namespace

Result<WhyTarget> WhyTarget::parse(std::string_view text) {
  WhyTarget target;
  if (text.empty()) {
    return target;
  }
  std::vector<std::string_view> parts = split(text, '/');
  target.kind = "pod";
  if (parts.size() > 1) {
    if (const std::string_view kind = kind_of(parts.front()); !kind.empty()) {
      target.kind = kind;
      parts.erase(parts.begin());
    }
  }
  if (parts.size() > 2 || std::ranges::any_of(parts, &std::string_view::empty)) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{} names no pod; write POD, NAMESPACE/POD, or KIND/NAME with the kind pod, job, "
                            "cronjob, deploy, sts, rs or ds",
                            in_quotes(text)));
  }
  target.namespace_name = parts.size() == 2 ? parts.front() : "";
  target.name = parts.back();
  return target;
}

std::string WhyTarget::meant() const {
  if (!is_pod() || namespace_name.empty()) {
    return "";
  }
  std::vector<std::string_view> kinds;
  for (const auto& [word, full] : kKinds) {
    kinds.push_back(word);
  }
  const auto nearest = nearest_name(namespace_name, kinds);
  return nearest ? fmt::format("{}/{}", *nearest, name) : "";
}

bool WhyTarget::may_include(std::string_view pod_name) const {
  if (is_all()) {
    return false;
  }
  return is_pod() ? pod_name == name : pod_name.starts_with(name + "-");
}

bool WhyTarget::includes(const alloc::PodSpec& pod, const objects::PodDetails& details) const {
  if (is_all() || is_pod()) {
    return is_all() || pod.name == name;
  }
  const std::string owner = lower(details.owner_kind);
  if (kind == "deployment") {
    const auto hash = details.labels.find("pod-template-hash");
    return owner == "replicaset" && hash != details.labels.end() &&
           details.owner_name == name + "-" + hash->second;
  }
  if (kind == "cronjob") {
    const std::string_view job = details.owner_name;
    return owner == "job" && job.starts_with(name + "-") && parse_int(job.substr(name.size() + 1));
  }
  return owner == kind && details.owner_name == name;
}

}  // namespace tessera::cli
