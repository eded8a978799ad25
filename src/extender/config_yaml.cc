// The YAML file: every key once, every mistake with its line.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <utility>

#include "base/file.h"
#include "base/json_reader.h"
#include "base/quantity.h"
#include "base/strings.h"
#include "extender/config.h"

namespace tessera::extender {

namespace {

// One value of the file and how it is called there.
class Setting {
 public:
  Setting(YAML::Node node, const std::string& file, std::string path)
      : node_(std::move(node)), file_(&file), path_(std::move(path)) {}

  [[nodiscard]] Error wrong(const std::string& why) const {
    return {ErrorCode::kInvalid, fmt::format("{}:{}: {} {}", *file_, node_.Mark().line + 1, path_, why)};
  }

  // Somebody else has said what is wrong.
  [[nodiscard]] Error wrong(const Error& error) const {
    return {ErrorCode::kInvalid,
            fmt::format("{}:{}: {}: {}", *file_, node_.Mark().line + 1, path_, error.text())};
  }

  [[nodiscard]] Result<std::string> text() const {
    if (!node_.IsScalar()) {
      return fail(wrong("must be a single value"));
    }
    return node_.Scalar();
  }

  [[nodiscard]] Result<std::int64_t> number(std::int64_t min, std::int64_t max) const {
    const std::string value = TRY(text());
    const std::optional<std::int64_t> parsed = parse_int(value);
    if (!parsed || *parsed < min || *parsed > max) {
      return fail(wrong(fmt::format("is {}, not a number from {} to {}", quoted(value), min, max)));
    }
    return *parsed;
  }

  // "15s", "500ms", "2m".
  [[nodiscard]] Result<std::chrono::milliseconds> duration() const {
    const std::string value = TRY(text());
    const std::size_t digits = std::min(value.find_first_not_of("0123456789"), value.size());
    const std::optional<std::int64_t> amount = parse_int(std::string_view(value).substr(0, digits));
    const std::string_view suffix = std::string_view(value).substr(digits);
    const std::int64_t scale = suffix == "ms" ? 1 : suffix == "s" ? 1000 : suffix == "m" ? 60'000 : 0;
    if (!amount || scale == 0 || *amount > 86'400'000 / scale) {
      return fail(wrong(fmt::format("is {}, not a duration like \"4s\" or \"500ms\"", quoted(value))));
    }
    return std::chrono::milliseconds(*amount * scale);
  }
  [[nodiscard]] Result<std::chrono::seconds> seconds() const {
    const std::chrono::milliseconds value = TRY(duration());
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(value);
    if (whole != value) {
      return fail(wrong("must be whole seconds"));
    }
    return whole;
  }
  [[nodiscard]] Result<std::size_t> bytes(std::int64_t max) const {
    const Result<Quantity> quantity = Quantity::parse(TRY(text()));
    if (!quantity || quantity->rounded_up() < 1024 || quantity->rounded_up() > max) {
      return fail(wrong(fmt::format("must be an amount of memory from 1Ki to {}",
                                    Quantity::units(max, Quantity::Notation::kBinary).text())));
    }
    return static_cast<std::size_t>(quantity->rounded_up());
  }

  // "0.0.0.0:39999", ":39999", "39999"; "[::1]:39999".
  Status endpoint(std::string& address, std::uint16_t& port) const {
    const std::string value = TRY(text());
    const std::size_t colon = value.rfind(':');
    const std::string_view number =
        colon == std::string::npos ? std::string_view(value) : std::string_view(value).substr(colon + 1);
    const std::optional<std::int64_t> parsed = parse_int(number);
    if (!parsed || *parsed < 0 || *parsed > 65535) {
      return fail(wrong(fmt::format("is {}, not an address and port like \"0.0.0.0:39999\"", quoted(value))));
    }
    port = static_cast<std::uint16_t>(*parsed);
    if (colon != std::string::npos) {
      std::string_view host = std::string_view(value).substr(0, colon);
      if (host.starts_with('[') && host.ends_with(']')) {
        host = host.substr(1, host.size() - 2);
      }
      address = host.empty() ? "0.0.0.0" : std::string(host);
    }
    return {};
  }

  [[nodiscard]] Result<alloc::Policy> policy() const {
    Result<alloc::Policy> parsed = alloc::parse_policy(TRY(text()));
    if (!parsed) {
      return fail(wrong(parsed.error()));
    }
    return parsed;
  }

  // Each of the keys at most once, and no others.
  using Reader = std::function<Status(const Setting&)>;
  Status mapping(std::initializer_list<std::pair<std::string_view, Reader>> readers) const {
    if (node_.IsNull()) {
      return {};
    }
    if (!node_.IsMap()) {
      return fail(wrong("must be a mapping"));
    }
    std::vector<std::string> seen;
    for (const auto& entry : node_) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      const auto reader = std::ranges::find(readers, key, [](const auto& one) { return one.first; });
      const Setting here(entry.first, *file_, path_.empty() ? key : path_ + "." + key);
      if (reader == readers.end()) {
        std::vector<std::string> names;
        for (const auto& [name, read] : readers) {
          names.emplace_back(name);
        }
        return fail(here.wrong("is not a setting; there are " + join_words(names)));
      }
      if (std::ranges::find(seen, key) != seen.end()) {
        return fail(here.wrong("is set twice"));
      }
      seen.push_back(key);
      if (!entry.second.IsNull()) {
        TRY(reader->second(Setting(entry.second, *file_, here.path_)));
      }
    }
    return {};
  }

  Status list(const Reader& reader) const {
    if (!node_.IsSequence()) {
      return fail(wrong("must be a list"));
    }
    for (std::size_t i = 0; i < node_.size(); ++i) {
      TRY(reader(Setting(node_[i], *file_, fmt::format("{}[{}]", path_, i))));
    }
    return {};
  }

 private:
  YAML::Node node_;
  const std::string* file_;
  std::string path_;
};

// A reader that stores what `read` gives.
template <class Value, class Read>
Setting::Reader into(Value& value, Read read) {
  return [&value, read](const Setting& setting) -> Status {
    value = static_cast<Value>(TRY(read(setting)));
    return {};
  };
}

Setting::Reader text_into(std::string& value) {
  return into(value, [](const Setting& setting) { return setting.text(); });
}

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
  const Status read = setting.mapping({
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
    return fail(setting.wrong("needs memory (units on each GPU) or gpus (whole ones)"));
  }
  config.typical_pods.push_back(std::move(pod));
  return {};
}

Status read_policies(const Setting& setting, Config& config) {
  return setting.mapping({
      {"shared", into(config.share_policy, [](const Setting& one) { return one.policy(); })},
      {"whole", into(config.whole_policy, [](const Setting& one) { return one.policy(); })},
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
           return fail(one.wrong(fmt::format("is {}, not sidecar or service", quoted(value))));
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
      {"log",
       [&](const Setting& logging) {
         return logging.mapping(
             {{"level", into(config.log.level,
                             [](const Setting& one) -> Result<log::Level> {
                               Result<log::Level> level = log::parse_level(TRY(one.text()));
                               return level ? level : fail(one.wrong(level.error()));
                             })},
              {"format", into(config.log.format, [](const Setting& one) -> Result<log::Format> {
                 Result<log::Format> format = log::parse_format(TRY(one.text()));
                 return format ? format : fail(one.wrong(format.error()));
               })}});
       }},
      {"unit", into(config.unit,
                    [](const Setting& one) -> Result<alloc::Unit> {
                      Result<alloc::Unit> unit = alloc::Unit::parse(TRY(one.text()));
                      return unit ? unit : fail(one.wrong(unit.error()));
                    })},
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
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    return read_all(Setting(root, name, ""), config);
  } catch (const YAML::Exception& error) {
    return fail(ErrorCode::kInvalid, fmt::format("{}:{}: {}", name, error.mark.line + 1, error.msg));
  }
}

}  // namespace tessera::extender
