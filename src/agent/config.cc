#include "agent/config.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "base/strings.h"
#include "daemon/yaml_setting.h"

namespace tessera::agent {

namespace {

using daemon::boolean_into;
using daemon::into;
using daemon::parsed_into;
using daemon::text_into;
using Setting = daemon::YamlSetting;

Result<StrategyKind> parse_strategy(std::string_view text) {
  if (text == "env") {
    return StrategyKind::kEnv;
  }
  if (text == "devices") {
    return StrategyKind::kDevices;
  }
  if (text == "cdi") {
    return StrategyKind::kCdi;
  }
  return fail(ErrorCode::kInvalid, fmt::format("{} is not env, devices or cdi", in_quotes(text)));
}

Status read_paths(const Setting& setting, Paths& paths) {
  return setting.mapping({{"nvmlLibrary", text_into(paths.nvml_library)},
                          {"driverRoot", text_into(paths.driver_root)},
                          {"driverRootHere", text_into(paths.driver_root_here)},
                          {"devRoot", text_into(paths.dev_root)},
                          {"devRootHere", text_into(paths.dev_root_here)},
                          {"sysfsRoot", text_into(paths.sysfs_root)},
                          {"procRoot", text_into(paths.proc_root)},
                          {"kubeletDir", text_into(paths.kubelet_dir)},
                          {"cdiDir", text_into(paths.cdi_dir)},
                          {"stateDir", text_into(paths.state_dir)}});
}

Status read_memory(const Setting& setting, MemoryRules& rules) {
  constexpr std::int64_t kMaxSlack = std::int64_t{1} << 40U;
  return setting.mapping(
      {{"policy", parsed_into(rules.policy, parse_memory_policy)},
       {"grace", into(rules.grace, [](const Setting& one) { return one.duration(); })},
       {"slack", into(rules.slack_bytes, [](const Setting& one) { return one.bytes(kMaxSlack, 0); })}});
}

Status read_all(const Setting& root, Config& config) {
  return root.mapping({
      {"nodeName", text_into(config.node_name)},
      {"kubeconfig", text_into(config.kubeconfig)},
      {"listen", [&](const Setting& one) { return one.endpoint(config.address, config.port); }},
      {"log", daemon::log_into(config.log)},
      {"unit", parsed_into(config.unit, alloc::Unit::parse)},
      {"subtractDriverMemory", boolean_into(config.subtract_driver_memory)},
      {"resources",
       [&](const Setting& one) {
         return one.mapping(
             {{"prefix", text_into(config.resources.prefix)}, {"whole", text_into(config.resources.whole)}});
       }},
      {"machine", text_into(config.machine)},
      {"strategy", parsed_into(config.strategy, parse_strategy)},
      {"driverLibraries", parsed_into(config.driver_libraries, parse_library_place)},
      {"xids", parsed_into(config.xids, gpu::XidRules::parse)},
      {"nodeLabels", boolean_into(config.node_labels)},
      {"legacyAnnotations", boolean_into(config.legacy_annotations)},
      {"nodeCondition", boolean_into(config.node_condition)},
      {"unhealthyConfigMap",
       [&](const Setting& one) {
         return one.mapping({{"write", boolean_into(config.unhealthy_config_map)},
                             {"namespace", text_into(config.unhealthy_config_map_namespace)}});
       }},
      {"memory", [&](const Setting& one) { return read_memory(one, config.memory); }},
      {"sampleEvery", into(config.sample_every, [](const Setting& one) { return one.duration(); })},
      {"drainTimeout", into(config.drain_timeout, [](const Setting& one) { return one.duration(); })},
      {"paths", [&](const Setting& one) { return read_paths(one, config.paths); }},
  });
}

// "/x/" and "/x" are the same directory; the rest of the agent expects "/x".
void remove_trailing_slashes(std::string& path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
}

}  // namespace

Status apply_environment(const daemon::Environment& environment, Config& config) {
  config.node_name = environment("NODE_NAME").value_or("");
  if (const auto level = environment("LOG_LEVEL")) {
    config.log.level = TRY(with_context(log::parse_level(*level), "environment variable LOG_LEVEL"));
  }
  return {};
}

Status apply_yaml(std::string_view yaml, const std::string& name, Config& config) {
  return daemon::read_settings(yaml, name, [&](const Setting& root) { return read_all(root, config); });
}

Status complete(Config& config) {
  if (config.node_name.empty()) {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) {
      return fail(ErrorCode::kInvalid, "nodeName: cannot read the host name; set --node-name");
    }
    config.node_name = name.data();
  }
  if (config.sample_every < std::chrono::seconds(1)) {
    return fail(ErrorCode::kInvalid,
                "sampleEvery: must be at least 1s; each sample asks the driver about every GPU");
  }
  Paths& paths = config.paths;
  const std::array<std::pair<const char*, std::string*>, 9> all{{{"driverRoot", &paths.driver_root},
                                                                 {"driverRootHere", &paths.driver_root_here},
                                                                 {"devRoot", &paths.dev_root},
                                                                 {"devRootHere", &paths.dev_root_here},
                                                                 {"sysfsRoot", &paths.sysfs_root},
                                                                 {"procRoot", &paths.proc_root},
                                                                 {"kubeletDir", &paths.kubelet_dir},
                                                                 {"cdiDir", &paths.cdi_dir},
                                                                 {"stateDir", &paths.state_dir}}};
  for (const auto& [name, path] : all) {
    remove_trailing_slashes(*path);
    if (!path->empty() && path->front() != '/') {
      return fail(ErrorCode::kInvalid,
                  fmt::format("paths.{}: {} is not an absolute path", name, in_quotes(*path)));
    }
  }
  return alloc::ResourceNames::check(config.resources);
}

}  // namespace tessera::agent
