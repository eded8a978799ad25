// daemon/yaml_setting.h
//
// One value of a configuration file in YAML and how it is called there: every key once, every mistake with
// its line. Only for the .cc files that read such files.
//
//   const YAML::Node root = YAML::Load(text);
//   return YamlSetting(root, "agent.yaml", "").mapping({
//       {"unit", into(config.unit, read_unit)},
//       {"log", [&](const YamlSetting& log) { return log.mapping({...}); }}});
#pragma once

#include <yaml-cpp/yaml.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace tessera::daemon {

class YamlSetting {
 public:
  // `file` must live longer.
  YamlSetting(const YAML::Node& node, const std::string& file, std::string path)
      : node_(node), file_(&file), path_(std::move(path)) {}

  // "agent.yaml:3: log.level is ..."
  [[nodiscard]] Error wrong(const std::string& why) const;
  // Somebody else has said what is wrong.
  [[nodiscard]] Error wrong(const Error& error) const;

  [[nodiscard]] Result<std::string> text() const;
  [[nodiscard]] Result<bool> boolean() const;
  [[nodiscard]] Result<std::int64_t> number(std::int64_t min, std::int64_t max) const;
  // "15s", "500ms", "2m".
  [[nodiscard]] Result<std::chrono::milliseconds> duration() const;
  [[nodiscard]] Result<std::chrono::seconds> seconds() const;
  [[nodiscard]] Result<std::size_t> bytes(std::int64_t max, std::int64_t min = 1024) const;
  // "0.0.0.0:39999", ":39999", "39999"; "[::1]:39999".
  Status endpoint(std::string& address, std::uint16_t& port) const;

  using Reader = std::function<Status(const YamlSetting&)>;
  // Each of the keys at most once, and no others.
  Status mapping(std::initializer_list<std::pair<std::string_view, Reader>> readers) const;
  Status list(const Reader& reader) const;

 private:
  YAML::Node node_;
  const std::string* file_;
  std::string path_;
};

// A reader that stores what `read` gives.
template <class Value, class Read>
YamlSetting::Reader into(Value& value, Read read) {
  return [&value, read](const YamlSetting& setting) -> Status {
    value = static_cast<Value>(TRY(read(setting)));
    return {};
  };
}

YamlSetting::Reader text_into(std::string& value);

// Reads a whole document; what is not YAML at all is told with its line, too.
Status read_settings(std::string_view yaml, const std::string& name, const YamlSetting::Reader& read);

// Where each setting of a document stands, by its path: "policies.shared" -> "f.yaml:3". For mistakes that
// only show when everything has been read. Adds to what other documents said: the last one to set a value
// counts.
using SettingPlaces = std::map<std::string, std::string, std::less<>>;
void note_places(std::string_view yaml, const std::string& name, SettingPlaces& places);
// Puts the place before an error that begins with a path and a colon, or leaves it as it is.
Error with_place(const Error& error, const SettingPlaces& places);

// A flag as the document it stands for: ("policies: {{shared: {}}}", "fgd") -> "policies: {shared: 'fgd'}".
std::string flag_as_yaml(const char* form, const std::string& value);

}  // namespace tessera::daemon
