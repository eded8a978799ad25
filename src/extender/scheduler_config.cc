#include "extender/scheduler_config.h"

#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <utility>

#include "extender/scheduler_policy.h"
#include "extender/yaml_keys.h"
#include "extender/yaml_text.h"
#include "http/url.h"

namespace tessera::extender {

namespace {

constexpr const char* kApiVersion = "kubescheduler.config.k8s.io/v1";
constexpr const char* kKind = "KubeSchedulerConfiguration";
constexpr const char* kPrefix = "/gpushare-scheduler";
constexpr const char* kSchedulerName = "tessera-scheduler";
// The file of kubeadm, on the host and in the static pod.
constexpr const char* kKubeadmKubeconfig = "/etc/kubernetes/scheduler.conf";

// Returns the kubeconfig of a new configuration; "" for the service account.
std::string default_kubeconfig(const Config& config) {
  return config.attach == Attach::kService ? kKubeadmKubeconfig : "";
}

// Returns an entry of managedResources. If `ignored` is false, kube-scheduler drops a node if
// its kubelet reports too little of the resource, so that fewer nodes reach the extender. The
// compute share must be ignored, because kubelet does not report it and all nodes would be dropped.
YAML::Node managed(const std::string& name, bool ignored) {
  YAML::Node node;
  node["name"] = name;
  node["ignoredByScheduler"] = ignored;
  return node;
}

// Returns a scalar, with quotes if a parser could read it as a number, a boolean or null.
YAML::Node quoted_if_needed(const std::string& text) {
  YAML::Node node(text);
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  const bool begins_as_text = !lower.empty() && ((lower[0] >= 'a' && lower[0] <= 'z') || lower[0] == '/');
  constexpr const char* kWords[] = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"};
  if (!begins_as_text || std::ranges::find(kWords, lower) != std::end(kWords)) {
    node.SetTag("!");
  }
  return node;
}

std::string scalar(const YAML::Node& node) {
  return node && node.IsScalar() ? node.Scalar() : "";
}

// Returns whether the extender is Tessera or one of the originals that it replaces.
bool is_ours(const YAML::Node& extender) {
  std::string url = scalar(extender["urlPrefix"]);
  while (url.ends_with('/')) {
    url.pop_back();
  }
  return url.ends_with(kPrefix) || url.ends_with("/gputopology-scheduler") ||
         url.ends_with("/gpu-scheduler-extender");
}

// Returns whether kube-scheduler scores nodes with its default plugins and without another
// extender. Only then may it call filter/best: another extender could reject all of the best nodes,
// and other weights could favour a node that filter/best left out.
bool scores_by_default(const YAML::Node& root) {
  for (const auto& extender : root["extenders"]) {
    if (!is_ours(extender)) {
      return false;
    }
  }
  for (const auto& profile : root["profiles"]) {
    if (profile["plugins"]) {
      return false;
    }
  }
  return true;
}

// Returns our element of `extenders`.
YAML::Node stanza(const Config& config, const std::string& url, bool only_best) {
  const alloc::ResourceNames names(config.resources);
  YAML::Node node;
  node["urlPrefix"] = url + kPrefix;
  node["filterVerb"] = only_best ? "filter/best" : "filter";
  node["prioritizeVerb"] = "prioritize";
  node["weight"] = 1;
  node["preemptVerb"] = "preempt";
  node["bindVerb"] = "bind";
  if (url.starts_with("https:")) {
    node["enableHTTPS"] = true;
  }
  // Longer than a bind may take, so that kube-scheduler gets its result.
  node["httpTimeout"] = "10s";
  node["nodeCacheCapable"] = true;
  node["ignorable"] = false;
  node["managedResources"].push_back(managed(names.memory(), false));
  node["managedResources"].push_back(managed(names.whole(), false));
  node["managedResources"].push_back(managed(names.count(), false));
  node["managedResources"].push_back(managed(names.core_percent(), true));
  return node;
}

// Returns kConflict if kube-scheduler would reject our extender next to `other`.
Status check_other(const YAML::Node& other, const Config& config, const std::string& name) {
  if (!scalar(other["bindVerb"]).empty()) {
    return fail(
        ErrorCode::kConflict,
        fmt::format(
            "{}: the extender at {} already binds pods (bindVerb), and kube-scheduler allows only one; "
            "use a second scheduler for GPU pods instead",
            name, scalar(other["urlPrefix"])));
  }
  const alloc::ResourceNames names(config.resources);
  for (const auto& resource : other["managedResources"]) {
    if (names.find(scalar(resource["name"]))) {
      return fail(ErrorCode::kConflict, fmt::format("{}: the extender at {} already manages {}", name,
                                                    scalar(other["urlPrefix"]), scalar(resource["name"])));
    }
  }
  return {};
}

// Explains how kube-scheduler treats settings that were not changed.
std::vector<std::string> make_remarks(const YAML::Node& root, const std::string& name) {
  std::vector<std::string> remarks;
  const auto check_percentage = [&](const YAML::Node& percentage, const std::string& where) {
    if (percentage && scalar(percentage) != "100") {
      remarks.push_back(
          fmt::format("{}: percentageOfNodesToScore{} is {}; with less than 100, kube-scheduler looks at "
                      "only some of the "
                      "nodes, and a pod may wait although another node has the GPU",
                      name, where, scalar(percentage)));
    }
  };
  check_percentage(root["percentageOfNodesToScore"], "");
  for (const auto& profile : root["profiles"]) {
    check_percentage(profile["percentageOfNodesToScore"],
                     fmt::format(" of profile {}", scalar(profile["schedulerName"])));
    for (const auto& plugin : profile["pluginConfig"]) {
      if (scalar(plugin["name"]) == "NodeResourcesFit" && plugin["args"]["ignoredResources"]) {
        remarks.push_back(fmt::format(
            "{}: kube-scheduler will not use ignoredResources of NodeResourcesFit in profile {}; it "
            "replaces them with the resources that an extender marks as ignoredByScheduler",
            name, scalar(profile["schedulerName"])));
      }
    }
  }
  return remarks;
}

// Returns NAMESPACE/NAME of the Lease that kube-scheduler takes. Uses the defaults of Kubernetes
// for missing settings.
std::string lease_of(const YAML::Node& election) {
  const auto or_else = [&](const char* key, const char* otherwise) {
    const std::string text = election ? scalar(election[key]) : "";
    return text.empty() ? otherwise : text;
  };
  return or_else("resourceNamespace", "kube-system") + "/" + or_else("resourceName", "kube-scheduler");
}

// Returns a remark if the extender watches another Lease than its scheduler takes, because it would
// bind nothing.
std::optional<std::string> remark_on_lease(const Config& config, const YAML::Node& root,
                                           const std::string& name) {
  const std::string watched = config.scheduler_lease_namespace + "/" + config.scheduler_lease_name;
  const std::string taken = lease_of(root["leaderElection"]);
  if (config.scheduler_lease_name.empty() || taken == watched) {
    return std::nullopt;
  }
  return fmt::format(
      "{}: leaderElection takes the Lease {}, but schedulerLease is {}, so nothing would be bound; use the "
      "same Lease in both",
      name, taken, watched);
}

// Sets the kubeconfig if the file has none. With --config, kube-scheduler ignores its flag
// --kubeconfig. Returns a remark if a kubeconfig is needed and missing.
std::optional<std::string> fill_in_kubeconfig(const Config& config, YAML::Node& root,
                                              const std::optional<std::string>& kubeconfig,
                                              const std::string& name) {
  const YAML::Node& file = root;
  const YAML::Node client = file["clientConnection"];
  if (client && client.IsMap() && !scalar(std::as_const(client)["kubeconfig"]).empty()) {
    return std::nullopt;
  }
  if (kubeconfig) {
    if (!kubeconfig->empty()) {
      root["clientConnection"]["kubeconfig"] = quoted_if_needed(*kubeconfig);
    }
    return std::nullopt;
  }
  if (config.attach == Attach::kSidecar) {
    return std::nullopt;
  }
  return fmt::format(
      "{}: clientConnection.kubeconfig is missing; with --config, kube-scheduler ignores its flag "
      "--kubeconfig and starts only in a pod with a service account; merge again with "
      "--scheduler-kubeconfig FILE (the file of kubeadm is {}; '' means the service account)",
      name, kKubeadmKubeconfig);
}

// Returns "s.yaml:7:3: extenders is not a list".
tl::unexpected<Error> error_at(const YAML::Node& node, const std::string& name, std::string_view what) {
  return fail(ErrorCode::kInvalid,
              fmt::format("{}:{}:{}: {}", name, node.Mark().line + 1, node.Mark().column + 1, what));
}

Status check_shape(const YAML::Node& root, const std::string& name) {
  for (const char* key : {"clientConnection", "leaderElection"}) {
    const YAML::Node part = root[key];
    if (part && !part.IsNull() && !part.IsMap()) {
      return error_at(part, name, fmt::format("{} is not a mapping", key));
    }
  }
  for (const char* key : {"extenders", "profiles"}) {
    const YAML::Node list = root[key];
    if (list && !list.IsNull() && !list.IsSequence()) {
      return error_at(list, name, fmt::format("{} is not a list", key));
    }
    for (const auto& one : list) {
      if (!one.IsMap()) {
        return error_at(one, name, fmt::format("this element of {} is not a mapping", key));
      }
    }
  }
  return {};
}

Result<SchedulerConfig> merge(const Config& config, const std::string& url, YAML::Node root,
                              const std::string& name, const std::optional<std::string>& kubeconfig) {
  if (!root.IsMap() || scalar(root["kind"]) != kKind) {
    return fail(ErrorCode::kInvalid, fmt::format("{}: not a {}", name, kKind));
  }
  if (scalar(root["apiVersion"]) != kApiVersion) {
    return fail(
        ErrorCode::kInvalid,
        fmt::format("{}: apiVersion is \"{}\"; kube-scheduler 1.25 and later need {}; change it first", name,
                    scalar(root["apiVersion"]), kApiVersion));
  }
  TRY(check_shape(root, name));
  SchedulerConfig merged{.yaml = "", .remarks = make_remarks(root, name)};
  for (std::optional<std::string>& remark :
       std::array{fill_in_kubeconfig(config, root, kubeconfig, name), remark_on_lease(config, root, name)}) {
    if (remark) {
      merged.remarks.push_back(*std::move(remark));
    }
  }
  const bool only_best = scores_by_default(root);
  YAML::Node extenders(YAML::NodeType::Sequence);
  bool placed = false;
  for (const auto& extender : root["extenders"]) {
    if (is_ours(extender)) {
      if (!placed) {
        YAML::Node fresh = stanza(config, url, only_best);
        if (extender["tlsConfig"]) {
          fresh["tlsConfig"] = extender["tlsConfig"];
        }
        extenders.push_back(fresh);
        placed = true;
      }
      continue;
    }
    if (Status status = check_other(extender, config, name); !status) {
      return fail(status.error());
    }
    extenders.push_back(extender);
  }
  if (!placed) {
    extenders.push_back(stanza(config, url, only_best));
  }
  root["extenders"] = extenders;
  if (!root["percentageOfNodesToScore"]) {
    root["percentageOfNodesToScore"] = 100;
  }
  merged.yaml = TRY(with_context(yaml_text(root), name));
  return merged;
}

// A Policy names no kubeconfig, so the default of scheduler_config() applies.
Result<SchedulerConfig> merge_policy(const Config& config, const std::string& url, const YAML::Node& policy,
                                     const std::string& name, const std::optional<std::string>& kubeconfig) {
  TRY(check_keys(policy, name));
  std::vector<std::string> remarks;
  const YAML::Node root = TRY(convert_scheduler_policy(policy, name, remarks));
  for (const auto& extender : root["extenders"]) {
    if (is_ours(extender)) {
      remarks.push_back(fmt::format("{}: Tessera's extender at {}{} replaces the one at {}", name, url,
                                    kPrefix, scalar(extender["urlPrefix"])));
    }
  }
  const std::string file = kubeconfig.value_or(default_kubeconfig(config));
  if (!kubeconfig && !file.empty()) {
    remarks.push_back(
        fmt::format("{}: clientConnection.kubeconfig is {}, the file of kubeadm; to change it, pass "
                    "--scheduler-kubeconfig "
                    "FILE ('' means the service account)",
                    name, file));
  }
  SchedulerConfig merged = TRY(merge(config, url, root, name, file));
  merged.remarks.insert(merged.remarks.begin(), remarks.begin(), remarks.end());
  return merged;
}

}  // namespace

std::string default_url(const Config& config) {
  const char* scheme = config.tls_certificate.empty() ? "http" : "https";
  return config.attach == Attach::kSidecar ? fmt::format("{}://127.0.0.1:{}", scheme, config.port)
                                           : fmt::format("{}://127.0.0.1:32766", scheme);
}

Result<std::string> extender_url(std::string_view text) {
  const Result<http::Url> url = http::parse_url(text);
  if (!url) {
    return fail(ErrorCode::kInvalid, fmt::format("--url: {}", url.error().text()));
  }
  std::string_view path = url->path;
  if (path.ends_with(kPrefix)) {
    path.remove_suffix(std::string_view(kPrefix).size());
  }
  return url->origin() + std::string(path);
}

std::string scheduler_config(const Config& config, const std::string& url,
                             const std::optional<std::string>& kubeconfig) {
  YAML::Node root;
  root["apiVersion"] = kApiVersion;
  root["kind"] = kKind;
  const std::string kubeconfig_file = kubeconfig.value_or(default_kubeconfig(config));
  if (!kubeconfig_file.empty()) {
    root["clientConnection"]["kubeconfig"] = quoted_if_needed(kubeconfig_file);
  }
  if (config.attach == Attach::kSidecar) {
    const bool watched = !config.scheduler_lease_name.empty();
    root["leaderElection"]["leaderElect"] = true;
    root["leaderElection"]["resourceName"] =
        quoted_if_needed(watched ? config.scheduler_lease_name : kSchedulerName);
    root["leaderElection"]["resourceNamespace"] =
        quoted_if_needed(watched ? config.scheduler_lease_namespace : "kube-system");
    // Another pod checks the Lease every 1 to 2.2 retry periods. With the default of 2 s, a
    // takeover could take 5 s.
    root["leaderElection"]["retryPeriod"] = "1s";
    YAML::Node profile;
    profile["schedulerName"] = kSchedulerName;
    root["profiles"].push_back(profile);
  }
  // The nodes that kube-scheduler skips may be the only ones with the right GPU.
  root["percentageOfNodesToScore"] = 100;
  root["extenders"].push_back(stanza(config, url, /*only_best=*/true));
  return yaml_text(root).value();
}

Result<SchedulerConfig> merge_scheduler_config(const Config& config, const std::string& url,
                                               std::string_view existing, const std::string& name,
                                               const std::optional<std::string>& kubeconfig) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(existing));
    if (documents.size() > 1) {
      return fail(ErrorCode::kInvalid, fmt::format("{}: has {} YAML documents; kube-scheduler reads only one",
                                                   name, documents.size()));
    }
    const YAML::Node root = documents.empty() ? YAML::Node() : documents.front();
    return is_scheduler_policy(root) ? merge_policy(config, url, root, name, kubeconfig)
                                     : merge(config, url, root, name, kubeconfig);
  } catch (const YAML::Exception& error) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}:{}:{}: {}", name, error.mark.line + 1, error.mark.column + 1, error.msg));
  }
}

}  // namespace tessera::extender
