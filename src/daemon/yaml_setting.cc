#include "daemon/yaml_setting.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/quantity.h"
#include "base/strings.h"

namespace tessera::daemon {

namespace {

// Returns "f.yaml:3:10". For a flag, returns only its name: users do not see the YAML document made
// from it.
std::string place(const std::string& name, const YAML::Mark& mark) {
  return name.starts_with("--") || mark.is_null()
             ? name
             : fmt::format("{}:{}:{}", name, mark.line + 1, mark.column + 1);
}

}  // namespace

Error YamlSetting::wrong(const std::string& what) const {
  return {ErrorCode::kInvalid, fmt::format("{}: {} {}", place(*file_, node_.Mark()), path_, what)};
}

Error YamlSetting::wrong(const Error& error) const {
  return {ErrorCode::kInvalid, fmt::format("{}: {}: {}", place(*file_, node_.Mark()), path_, error.text())};
}

Result<std::string> YamlSetting::text() const {
  if (!node_.IsScalar()) {
    return fail(wrong("must be a single value"));
  }
  return node_.Scalar();
}

Result<bool> YamlSetting::boolean() const {
  const std::string value = TRY(text());
  if (value != "true" && value != "false") {
    return fail(wrong(fmt::format("is {}, not true or false", in_quotes(value))));
  }
  return value == "true";
}

Result<std::int64_t> YamlSetting::number(std::int64_t min, std::int64_t max) const {
  const std::string value = TRY(text());
  const std::optional<std::int64_t> parsed = parse_int(value);
  if (!parsed || *parsed < min || *parsed > max) {
    return fail(wrong(fmt::format("is {}, not a number from {} to {}", in_quotes(value), min, max)));
  }
  return *parsed;
}

Result<std::chrono::milliseconds> YamlSetting::duration(std::chrono::milliseconds max) const {
  const std::string value = TRY(text());
  const std::size_t digits = std::min(value.find_first_not_of("0123456789"), value.size());
  const std::optional<std::int64_t> amount = parse_int(std::string_view(value).substr(0, digits));
  const std::string_view suffix = std::string_view(value).substr(digits);
  const std::int64_t scale = suffix == "ms"  ? 1
                             : suffix == "s" ? 1000
                             : suffix == "m" ? 60'000
                             : suffix == "h" ? 3'600'000
                                             : 0;
  if (!amount || scale == 0 || *amount > max.count() / scale) {
    return fail(wrong(fmt::format("is {}, not a duration like \"4s\" or \"500ms\"", in_quotes(value))));
  }
  return std::chrono::milliseconds(*amount * scale);
}

Result<std::chrono::seconds> YamlSetting::seconds() const {
  const std::chrono::milliseconds value = TRY(duration());
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(value);
  if (whole != value) {
    return fail(wrong("must be whole seconds"));
  }
  return whole;
}

Result<std::size_t> YamlSetting::bytes(std::int64_t max, std::int64_t min) const {
  const Result<Quantity> quantity = Quantity::parse(TRY(text()));
  if (!quantity || quantity->rounded_up() < min || quantity->rounded_up() > max) {
    return fail(wrong(fmt::format("must be an amount of memory from {} to {}",
                                  Quantity::units(min, Quantity::Notation::kBinary).text(),
                                  Quantity::units(max, Quantity::Notation::kBinary).text())));
  }
  return static_cast<std::size_t>(quantity->rounded_up());
}

Status YamlSetting::endpoint(std::string& address, std::uint16_t& port) const {
  const std::string value = TRY(text());
  const std::size_t colon = value.rfind(':');
  const std::string_view number =
      colon == std::string::npos ? std::string_view(value) : std::string_view(value).substr(colon + 1);
  const std::optional<std::int64_t> parsed = parse_int(number);
  if (!parsed || *parsed < 0 || *parsed > 65535) {
    return fail(
        wrong(fmt::format("is {}, not an address and port like \"0.0.0.0:39999\"", in_quotes(value))));
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

Status YamlSetting::mapping(std::initializer_list<std::pair<std::string_view, Reader>> readers) const {
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
    const YamlSetting here(entry.first, *file_, path_.empty() ? key : path_ + "." + key);
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
      TRY(reader->second(YamlSetting(entry.second, *file_, here.path_)));
    }
  }
  return {};
}

Status YamlSetting::list(const Reader& reader) const {
  if (!node_.IsSequence()) {
    return fail(wrong("must be a list"));
  }
  for (std::size_t i = 0; i < node_.size(); ++i) {
    TRY(reader(YamlSetting(node_[i], *file_, fmt::format("{}[{}]", path_, i))));
  }
  return {};
}

YamlSetting::Reader text_into(std::string& value) {
  return into(value, [](const YamlSetting& setting) { return setting.text(); });
}

YamlSetting::Reader boolean_into(bool& value) {
  return into(value, [](const YamlSetting& setting) { return setting.boolean(); });
}

YamlSetting::Reader log_into(log::Options& options) {
  return [&options](const YamlSetting& setting) {
    return setting.mapping({{"level", parsed_into(options.level, log::parse_level)},
                            {"format", parsed_into(options.format, log::parse_format)}});
  };
}

Status read_settings(std::string_view yaml, const std::string& name, const YamlSetting::Reader& read) {
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    return read(YamlSetting(root, name, ""));
  } catch (const YAML::Exception& error) {
    return fail(ErrorCode::kInvalid, fmt::format("{}: {}", place(name, error.mark), error.msg));
  }
}

namespace {

void note_places(const YAML::Node& mapping, const std::string& path, const std::string& name,
                 SettingPlaces& places) {
  for (const auto& entry : mapping) {
    if (!entry.first.IsScalar()) {
      continue;
    }
    const std::string here = path.empty() ? entry.first.Scalar() : path + "." + entry.first.Scalar();
    if (entry.second.IsMap()) {
      places.try_emplace(here, place(name, entry.first.Mark()));
      note_places(entry.second, here, name, places);
    } else {
      places.insert_or_assign(here, place(name, entry.first.Mark()));
    }
  }
}

}  // namespace

void note_places(std::string_view yaml, const std::string& name, SettingPlaces& places) {
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    if (root.IsMap()) {
      note_places(root, "", name, places);
    }
  } catch (const YAML::Exception&) {
    return;  // read_settings() has reported it
  }
}

Error with_place(const Error& error, const SettingPlaces& places) {
  const auto found = places.find(error.text().substr(0, error.text().find(':')));
  return found == places.end() ? error : Error(error.code(), found->second + ": " + error.text());
}

std::string flag_as_yaml(const char* form, const std::string& value) {
  std::string quoted = "'";
  for (const char c : value) {
    quoted += c == '\'' ? "''" : std::string(1, c);
  }
  quoted += "'";
  return fmt::format(fmt::runtime(form), quoted);
}

}  // namespace tessera::daemon
