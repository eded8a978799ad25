#include "extender/scheduler_policy.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "base/strings.h"

namespace tessera::extender {

namespace {

// A predicate or priority and the plugins that replaced it.
struct Successor {
  std::string_view old;
  std::string_view plugins;   // separated by spaces
  std::string_view remark{};  // how the plugin differs; empty if it is an exact successor
};

constexpr std::string_view kCsi = "in-tree volumes are CSI volumes now, and it counts those";
constexpr std::string_view kTainted = "Kubernetes taints such nodes now";

constexpr Successor kPredicates[] = {
    {"PodFitsHostPorts", "NodePorts"},
    {"PodFitsPorts", "NodePorts"},
    {"PodFitsResources", "NodeResourcesFit"},
    {"HostName", "NodeName"},
    {"MatchNodeSelector", "NodeAffinity"},
    {"GeneralPredicates", "NodeResourcesFit NodeName NodePorts NodeAffinity"},
    {"NoDiskConflict", "VolumeRestrictions"},
    {"NoVolumeZoneConflict", "VolumeZone"},
    {"CheckVolumeBinding", "VolumeBinding"},
    {"MatchInterPodAffinity", "InterPodAffinity"},
    {"EvenPodsSpread", "PodTopologySpread"},
    {"PodToleratesNodeTaints", "TaintToleration"},
    {"CheckNodeUnschedulable", "NodeUnschedulable"},
    {"MaxCSIVolumeCountPred", "NodeVolumeLimits"},
    {"MaxEBSVolumeCount", "NodeVolumeLimits", kCsi},
    {"MaxGCEPDVolumeCount", "NodeVolumeLimits", kCsi},
    {"MaxAzureDiskVolumeCount", "NodeVolumeLimits", kCsi},
    {"MaxCinderVolumeCount", "NodeVolumeLimits", kCsi},
    {"CheckNodeCondition", "TaintToleration", kTainted},
    {"CheckNodeMemoryPressure", "TaintToleration", kTainted},
    {"CheckNodeDiskPressure", "TaintToleration", kTainted},
    {"CheckNodePIDPressure", "TaintToleration", kTainted},
};

constexpr std::string_view kFit = "NodeResourcesFit";
constexpr std::string_view kRatio = "RequestedToCapacityRatioPriority";
constexpr std::string_view kSpreads = "its default constraints spread the pods of a Service or ReplicaSet";

constexpr Successor kPriorities[] = {
    {"LeastRequestedPriority", kFit, "with the scoring strategy LeastAllocated"},
    {"MostRequestedPriority", kFit, "with the scoring strategy MostAllocated"},
    {kRatio, kFit, "with the scoring strategy RequestedToCapacityRatio"},
    {"BalancedResourceAllocation", "NodeResourcesBalancedAllocation"},
    {"SelectorSpreadPriority", "PodTopologySpread", kSpreads},
    {"ServiceSpreadingPriority", "PodTopologySpread", kSpreads},
    {"EvenPodsSpreadPriority", "PodTopologySpread"},
    {"InterPodAffinityPriority", "InterPodAffinity"},
    {"NodeAffinityPriority", "NodeAffinity"},
    {"TaintTolerationPriority", "TaintToleration"},
    {"ImageLocalityPriority", "ImageLocality"},
};

// The default plugins that a Policy can turn off. kube-scheduler always used the predicates of the
// first two.
struct Plugin {
  std::string_view name;
  bool filters;
  bool scores;
  bool always = false;
};
constexpr Plugin kPlugins[] = {
    {"NodeUnschedulable", true, false, true},
    {"TaintToleration", true, true, true},
    {"NodeName", true, false},
    {"NodePorts", true, false},
    {"NodeAffinity", true, true},
    {"NodeResourcesFit", true, true},
    {"NodeResourcesBalancedAllocation", false, true},
    {"VolumeRestrictions", true, false},
    {"NodeVolumeLimits", true, false},
    {"VolumeBinding", true, false},
    {"VolumeZone", true, false},
    {"PodTopologySpread", true, true},
    {"InterPodAffinity", true, true},
    {"ImageLocality", false, true},
};

constexpr std::int64_t kMostWeight = 1'000'000;

YAML::Node named(std::string_view name) {
  YAML::Node node;
  node["name"] = std::string(name);
  return node;
}

std::string scalar(const YAML::Node& node) {
  return node && node.IsScalar() ? node.Scalar() : "";
}

class Converter {
 public:
  Converter(const YAML::Node& policy, const std::string& name, std::vector<std::string>& remarks)
      : policy_(policy), name_(name), remarks_(remarks) {}

  Result<YAML::Node> convert() {
    remark(
        "kube-scheduler 1.23 and later do not read a Policy; this is the KubeSchedulerConfiguration for it, "
        "so "
        "replace the flag --policy-config-file of kube-scheduler with --config");
    for (const auto& field : policy_) {
      TRY(check_field(scalar(field.first), field.second));
    }
    TRY(read_predicates());
    TRY(read_priorities());
    TRY(read_affinity_weight());
    YAML::Node root;
    root["apiVersion"] = "kubescheduler.config.k8s.io/v1";
    root["kind"] = "KubeSchedulerConfiguration";
    if (const YAML::Node profile = make_profile(); profile.size() > 1) {
      root["profiles"].push_back(profile);
    }
    for (const auto& extender : policy_["extenders"]) {
      root["extenders"].push_back(TRY(convert_extender(extender)));
    }
    return root;
  }

 private:
  void remark(std::string_view text) { remarks_.push_back(fmt::format("{}: {}", name_, text)); }

  // Returns "policy.json:7:3: priorities is not a list".
  [[nodiscard]] tl::unexpected<Error> wrong(const YAML::Node& at, std::string_view what) const {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}:{}:{}: {}", name_, at.Mark().line + 1, at.Mark().column + 1, what));
  }

  Status check_field(const std::string& key, const YAML::Node& value) {
    if (key == "predicates" || key == "priorities" || key == "extenders") {
      if (!value.IsSequence() && !value.IsNull()) {
        return wrong(value, fmt::format("{} is not a list", key));
      }
      for (const auto& entry : value) {
        if (!entry.IsMap()) {
          return wrong(entry, fmt::format("this element of {} is not a mapping", key));
        }
      }
    } else if (key == "alwaysCheckAllPredicates") {
      if (scalar(value) == "true") {
        remark(
            "alwaysCheckAllPredicates has no equivalent: a plugin that rejects a node ends the check of it");
      }
    } else if (key != "kind" && key != "apiVersion" && key != "metadata" &&
               key != "hardPodAffinitySymmetricWeight") {
      remark(fmt::format("{} has no equivalent and is dropped", in_quotes(key)));
    }
    return {};
  }

  // Returns the successor of a predicate or priority. Without one, adds a remark. `kind` is
  // "predicate" or "priority".
  const Successor* find(std::span<const Successor> all, std::string_view kind, const YAML::Node& entry) {
    const std::string old = scalar(entry["name"]);
    // An argument makes a predicate or priority of one's own, whatever its name is. Only one kind of
    // argument has a successor.
    const bool ratio = entry["argument"] && entry["argument"].IsMap() &&
                       entry["argument"]["requestedToCapacityRatioArguments"];
    const std::string_view wanted = ratio ? kRatio : std::string_view(old);
    const auto found = std::ranges::find(all, wanted, &Successor::old);
    if (found == all.end() || (entry["argument"] && !ratio) || (wanted == kRatio && !ratio)) {
      remark(fmt::format("{} {} has no equivalent and is dropped{}", kind, in_quotes(old),
                         entry["argument"] ? ", with its argument" : ""));
      return nullptr;
    }
    if (found->remark.empty()) {
      remark(fmt::format("{} {} is the plugin {} now", kind, in_quotes(old), plugin_list(*found)));
    } else {
      remark(fmt::format("{} {} is the plugin {} now: {}", kind, in_quotes(old), plugin_list(*found),
                         found->remark));
    }
    return &*found;
  }

  static std::string plugin_list(const Successor& successor) {
    return fmt::format("{}", fmt::join(split(successor.plugins, ' '), ", "));
  }

  Status read_predicates() {
    const YAML::Node list = policy_["predicates"];
    has_predicates_ = list && list.IsSequence();
    for (const auto& entry : list) {
      if (scalar(entry["name"]).empty()) {
        return wrong(entry, "this predicate has no name");
      }
      if (const Successor* successor = find(kPredicates, "predicate", entry)) {
        for (const std::string_view plugin : split(successor->plugins, ' ')) {
          filters_.insert(plugin);
        }
      }
    }
    return {};
  }

  Status read_priorities() {
    const YAML::Node list = policy_["priorities"];
    has_priorities_ = list && list.IsSequence();
    bool spreads = false;
    for (const auto& entry : list) {
      const std::string old = scalar(entry["name"]);
      if (old.empty()) {
        return wrong(entry, "this priority has no name");
      }
      const auto weight = parse_int(scalar(entry["weight"]));
      if (!weight || *weight < 1 || *weight > kMostWeight) {
        return wrong(entry, fmt::format("the weight of priority {} is not a number from 1 to {}",
                                        in_quotes(old), kMostWeight));
      }
      if (old == "EqualPriority") {
        continue;  // it gave every node the same score
      }
      const Successor* successor = find(kPriorities, "priority", entry);
      if (successor == nullptr) {
        continue;
      }
      if (const auto [known, is_new] = scores_.emplace(successor->plugins, *weight); !is_new) {
        remark(fmt::format("priority {} is dropped, because another priority is the plugin {} as well",
                           in_quotes(old), successor->plugins));
        continue;
      }
      spreads = spreads || successor->remark == kSpreads;
      if (successor->plugins == kFit) {
        TRY(set_strategy(old, entry));
      }
    }
    // Without default constraints, the plugin scores only the constraints of the pods themselves.
    if (scores_.contains("PodTopologySpread") && !spreads) {
      YAML::Node args;
      args["defaultingType"] = "List";
      args["defaultConstraints"] = YAML::Node(YAML::NodeType::Sequence);
      set_args("PodTopologySpread", args);
    }
    return {};
  }

  Status set_strategy(const std::string& old, const YAML::Node& entry) {
    YAML::Node strategy;
    if (entry["argument"]) {
      const YAML::Node ratio = entry["argument"]["requestedToCapacityRatioArguments"];
      if (!ratio.IsMap() || !ratio["shape"] || !ratio["shape"].IsSequence()) {
        return wrong(ratio, fmt::format("priority {} has no shape", in_quotes(old)));
      }
      strategy["type"] = "RequestedToCapacityRatio";
      strategy["requestedToCapacityRatio"]["shape"] = ratio["shape"];
      if (ratio["resources"]) {
        strategy["resources"] = ratio["resources"];
      }
    } else if (old == "MostRequestedPriority") {
      strategy["type"] = "MostAllocated";
    } else {
      return {};  // LeastAllocated is the default
    }
    YAML::Node args;
    args["scoringStrategy"] = strategy;
    set_args(kFit, args);
    return {};
  }

  Status read_affinity_weight() {
    const YAML::Node node = policy_["hardPodAffinitySymmetricWeight"];
    if (!node) {
      return {};
    }
    const auto weight = parse_int(scalar(node));
    if (!weight || *weight < 0 || *weight > 100) {
      return wrong(node, "hardPodAffinitySymmetricWeight is not a number from 0 to 100");
    }
    YAML::Node args;
    args["hardPodAffinityWeight"] = *weight;
    set_args("InterPodAffinity", args);
    remark("hardPodAffinitySymmetricWeight is hardPodAffinityWeight of the plugin InterPodAffinity now");
    return {};
  }

  void set_args(std::string_view plugin, const YAML::Node& args) {
    YAML::Node config = named(plugin);
    config["args"] = args;
    plugin_config_.push_back(config);
  }

  // Turns off what the lists do not name, and sets the weights of what they name.
  YAML::Node make_profile() {
    YAML::Node plugins;
    std::vector<std::string_view> off;
    for (const Plugin& plugin : kPlugins) {
      const bool filters =
          plugin.filters && (!has_predicates_ || plugin.always || filters_.contains(plugin.name));
      const auto weight = scores_.find(plugin.name);
      const bool scores = plugin.scores && (!has_priorities_ || weight != scores_.end());
      if (!filters && !scores) {
        plugins["multiPoint"]["disabled"].push_back(named(plugin.name));
        off.push_back(plugin.name);
        continue;
      }
      if (plugin.filters && !filters) {
        plugins["preFilter"]["disabled"].push_back(named(plugin.name));
        plugins["filter"]["disabled"].push_back(named(plugin.name));
      }
      if (plugin.scores && !scores) {
        plugins["preScore"]["disabled"].push_back(named(plugin.name));
        plugins["score"]["disabled"].push_back(named(plugin.name));
      }
      if (scores && has_priorities_) {
        YAML::Node weighted = named(plugin.name);
        weighted["weight"] = weight->second;
        plugins["score"]["enabled"].push_back(weighted);
      }
    }
    // kube-scheduler sets the resources that it ignores in these arguments, and requires them even if
    // the plugin is off.
    if (std::ranges::find(off, kFit) != off.end()) {
      set_args(kFit, YAML::Node(YAML::NodeType::Map));
    }
    if (!off.empty()) {
      remark(
          fmt::format("these plugins are off, because the Policy lists neither their predicate nor their "
                      "priority: {}",
                      fmt::join(off, ", ")));
    }
    YAML::Node profile;
    profile["schedulerName"] = "default-scheduler";
    if (plugins.size() > 0) {
      profile["plugins"] = plugins;
    }
    if (plugin_config_.size() > 0) {
      profile["pluginConfig"] = plugin_config_;
    }
    return profile;
  }

  Result<YAML::Node> convert_extender(const YAML::Node& old) {
    static constexpr std::string_view kKept[] = {
        "urlPrefix", "filterVerb", "preemptVerb",      "prioritizeVerb",   "weight",
        "bindVerb",  "tlsConfig",  "nodeCacheCapable", "managedResources", "ignorable"};
    const std::string url = scalar(old["urlPrefix"]);
    if (url.empty()) {
      return wrong(old, "this extender has no urlPrefix");
    }
    YAML::Node extender;
    for (const auto& field : old) {
      const std::string key = scalar(field.first);
      if (std::ranges::find(kKept, key) != std::end(kKept)) {
        extender[key] = field.second;
      } else if (key == "enableHttps" || key == "enableHTTPS") {
        extender["enableHTTPS"] = field.second;
      } else if (key == "httpTimeout") {
        // A Policy has nanoseconds here, or a text like "5s" in later versions.
        const auto nanoseconds = parse_int(scalar(field.second));
        extender["httpTimeout"] =
            nanoseconds ? YAML::Node(fmt::format("{}ns", *nanoseconds)) : YAML::Node(field.second);
      } else {
        remark(fmt::format("{} of the extender at {} has no equivalent and is dropped", in_quotes(key),
                           in_quotes(url)));
      }
    }
    return extender;
  }

  const YAML::Node& policy_;
  const std::string& name_;
  std::vector<std::string>& remarks_;
  bool has_predicates_ = false;
  bool has_priorities_ = false;
  std::set<std::string_view> filters_;
  std::map<std::string_view, std::int64_t> scores_;  // plugin -> weight
  YAML::Node plugin_config_;
};

}  // namespace

bool is_scheduler_policy(const YAML::Node& root) {
  return root.IsMap() && scalar(root["kind"]) == "Policy" && scalar(root["apiVersion"]) == "v1";
}

Result<YAML::Node> convert_scheduler_policy(const YAML::Node& policy, const std::string& name,
                                            std::vector<std::string>& remarks) {
  return Converter(policy, name, remarks).convert();
}

}  // namespace tessera::extender
