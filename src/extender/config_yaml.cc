// Reads the YAML configuration file.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <utility>

#include "base/file.h"
#include "base/json_reader.h"
#include "base/quantity.h"
#include "base/strings.h"
#include "daemon/yaml_setting.h"
#include "extender/config.h"

namespace tessera::extender {

namespace {

using daemon::into;
using daemon::parsed_into;
using daemon::text_into;
using Setting = daemon::YamlSetting;

Status read_static_sets(const Setting& setting, Config& config) {
  const std::string path = TRY(setting.text());
  const auto load = [&]() -> Result<topology::StaticSets> {
    const std::string text = TRY(read_file(path));
    const boost::json::value json = TRY(parse_json(text));
    return topology::StaticSets::from_json(JsonReader(json, path));
  };
  Result<topology::StaticSets> sets = load();
  if (!sets) {
    return fail(setting.wrong(sets.error()));
  }
  config.static_sets = std::make_shared<const topology::StaticSets>(*std::move(sets));
  return {};
}

Status read_typical_pod(const Setting& setting, Config& config) {
  TypicalPodSpec pod;
  bool whole = false;
  Status read = setting.mapping({
      {"memory", into(pod.units, [](const Setting& one) { return one.number(1, 1 << 24); })},
      {"gpus",
       [&](const Setting& one) -> Status {
         pod.gpus = static_cast<std::uint16_t>(TRY(one.number(1, 64)));
         whole = true;
         return {};
       }},
      {"cpu",
       [&](const Setting& one) -> Status {
         const Result<Quantity> cpu = Quantity::parse(TRY(one.text()));
         const Result<std::int64_t> milli = cpu ? cpu->milli() : fail(cpu.error());
         if (!milli || *milli < 0) {
           return fail(one.wrong("is not an amount of CPU like \"4\" or \"500m\""));
         }
         pod.cpu_milli = *milli;
         return {};
       }},
      {"models",
       [&](const Setting& one) {
         return one.list([&](const Setting& model) -> Status {
           pod.models.push_back(TRY(model.text()));
           return {};
         });
       }},
      {"count", into(pod.count, [](const Setting& one) { return one.number(1, 1'000'000'000); })},
  });
  if (!read) {
    return read;
  }
  if (pod.units == 0 && !whole) {
    return fail(setting.wrong("needs memory (units on each GPU) or gpus (whole GPUs)"));
  }
  config.typical_pods.push_back(std::move(pod));
  return {};
}

Status read_scheduler_lease(const Setting& setting, Config& config) {
  const std::string value = TRY(setting.text());
  const std::size_t slash = value.find('/');
  if (!value.empty() && (slash == 0 || slash == std::string::npos || slash + 1 == value.size() ||
                         value.find('/', slash + 1) != std::string::npos)) {
    return fail(setting.wrong(fmt::format("is {}, not NAMESPACE/NAME of a Lease", in_quotes(value))));
  }
  config.scheduler_lease_namespace = value.empty() ? "" : value.substr(0, slash);
  config.scheduler_lease_name = value.empty() ? "" : value.substr(slash + 1);
  return {};
}

Status read_policies(const Setting& setting, Config& config) {
  return setting.mapping({
      {"shared", parsed_into(config.share_policy, alloc::parse_policy)},
      {"whole", parsed_into(config.whole_policy, alloc::parse_policy)},
      {"staticSets", [&](const Setting& one) { return read_static_sets(one, config); }},
  });
}

Status read_all(const Setting& root, Config& config) {
  const auto section = [&](Status (*read)(const Setting&, Config&)) {
    return [&config, read](const Setting& setting) { return read(setting, config); };
  };
  return root.mapping({
      {"attach",
       [&](const Setting& one) -> Status {
         const std::string value = TRY(one.text());
         if (value != "sidecar" && value != "service") {
           return fail(one.wrong(fmt::format("is {}, not sidecar or service", in_quotes(value))));
         }
         config.attach = value == "sidecar" ? Attach::kSidecar : Attach::kService;
         return {};
       }},
      {"listen", [&](const Setting& one) { return one.endpoint(config.address, config.port); }},
      {"health", [&](const Setting& one) { return one.endpoint(config.health_address, config.health_port); }},
      {"kubeconfig", text_into(config.kubeconfig)},
      {"tls",
       [&](const Setting& tls) {
         return tls.mapping({{"certificate", text_into(config.tls_certificate)},
                             {"key", text_into(config.tls_key)},
                             {"clientCA", text_into(config.tls_client_ca)}});
       }},
      {"log", daemon::log_into(config.log)},
      {"unit", parsed_into(config.unit, alloc::Unit::parse)},
      {"resources",
       [&](const Setting& resources) {
         return resources.mapping(
             {{"prefix", text_into(config.resources.prefix)}, {"whole", text_into(config.resources.whole)}});
       }},
      {"policies", section(read_policies)},
      {"typicalPods",
       [&](const Setting& pods) {
         config.typical_pods.clear();
         return pods.list([&](const Setting& one) { return read_typical_pod(one, config); });
       }},
      {"scores",
       [&](const Setting& scores) {
         return scores.mapping({{"step", into(config.score_step,
                                              [](const Setting& one) { return one.number(1, 1'000'000); })}});
       }},
      {"lease",
       [&](const Setting& lease) {
         const auto seconds = [](const Setting& one) { return one.seconds(); };
         return lease.mapping({{"name", text_into(config.lease_name)},
                               {"namespace", text_into(config.lease_namespace)},
                               {"duration", into(config.lease_duration, seconds)},
                               {"renewDeadline", into(config.renew_deadline, seconds)},
                               {"retryPeriod", into(config.retry_period, seconds)}});
       }},
      {"schedulerLease", section(read_scheduler_lease)},
      {"agentSelector", text_into(config.agent_selector)},
      {"limits",
       [&](const Setting& limits) {
         return limits.mapping(
             {{"bindTimeout", into(config.bind_timeout, [](const Setting& one) { return one.duration(); })},
              {"bindsAtOnce",
               into(config.binds_at_once, [](const Setting& one) { return one.number(1, 100'000); })},
              {"connections",
               into(config.max_connections, [](const Setting& one) { return one.number(1, 100'000); })},
              {"body", into(config.max_body_bytes, [](const Setting& one) { return one.bytes(1 << 30); })}});
       }},
  });
}

}  // namespace

Status apply_yaml(std::string_view yaml, const std::string& name, Config& config) {
  return daemon::read_settings(yaml, name, [&](const Setting& root) { return read_all(root, config); });
}

}  // namespace tessera::extender
