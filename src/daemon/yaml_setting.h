// daemon/yaml_setting.h
//
// One value of a YAML configuration file, together with its path in the file ("log.level"). The
// functions check that every key is known and set once, and report mistakes with file, line and
// column. Includes yaml-cpp, so include this header only in .cc files.
//
//   return read_settings(yaml, "agent.yaml", [&](const YamlSetting& root) {
//     return root.mapping({{"unit", parsed_into(config.unit, alloc::Unit::parse)},
//                          {"log", [&](const YamlSetting& log) { return log.mapping({...}); }}});
//   });
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

#include "base/log.h"
#include "base/result.h"

namespace tessera::daemon {

class YamlSetting {
 public:
  // `file` must outlive this object. It is the name of a file, or of a flag ("--unit").
  YamlSetting(const YAML::Node& node, const std::string& file, std::string path)
      : node_(node), file_(&file), path_(std::move(path)) {}

  // Returns the error "agent.yaml:3:10: log.level WHAT".
  [[nodiscard]] Error wrong(const std::string& what) const;
  // Returns the error "agent.yaml:3:10: log.level: ERROR".
  [[nodiscard]] Error wrong(const Error& error) const;

  // The following functions return the value of this setting. They fail with wrong() if the value
  // has another form or is out of range.
  [[nodiscard]] Result<std::string> text() const;
  [[nodiscard]] Result<bool> boolean() const;
  [[nodiscard]] Result<std::int64_t> number(std::int64_t min, std::int64_t max) const;
  // Accepts "15s", "500ms", "2m", "36h".
  [[nodiscard]] Result<std::chrono::milliseconds> duration(
      std::chrono::milliseconds max = std::chrono::hours(24)) const;
  // Like duration(), but accepts only whole seconds.
  [[nodiscard]] Result<std::chrono::seconds> seconds() const;
  // Accepts a Kubernetes quantity: "16Mi", "1G".
  [[nodiscard]] Result<std::size_t> bytes(std::int64_t max, std::int64_t min = 1024) const;
  // Accepts "0.0.0.0:39999", ":39999", "39999" and "[::1]:39999". ":39999" sets `address` to
  // "0.0.0.0"; "39999" leaves `address` unchanged.
  Status endpoint(std::string& address, std::uint16_t& port) const;

  using Reader = std::function<Status(const YamlSetting&)>;
  // Reads a mapping. An unknown key, or one that is set twice, is an error: a typing mistake must
  // not silently mean the default.
  Status mapping(std::initializer_list<std::pair<std::string_view, Reader>> readers) const;
  // Calls `reader` for each element of a list.
  Status list(const Reader& reader) const;

 private:
  YAML::Node node_;
  const std::string* file_;
  std::string path_;
};

// Returns a reader that stores the result of `read` in `value`.
template <class Value, class Read>
YamlSetting::Reader into(Value& value, Read read) {
  return [&value, read](const YamlSetting& setting) -> Status {
    value = static_cast<Value>(TRY(read(setting)));
    return {};
  };
}

// Returns a reader that parses the text with `parse` and stores the result in `value`. Errors name
// file, line, column and setting.
template <class Value, class Parse>
YamlSetting::Reader parsed_into(Value& value, Parse parse) {
  return into(value, [parse](const YamlSetting& setting) -> Result<Value> {
    const std::string text = TRY(setting.text());
    Result<Value> parsed = parse(text);
    return parsed ? parsed : fail(setting.wrong(parsed.error()));
  });
}

YamlSetting::Reader text_into(std::string& value);
YamlSetting::Reader boolean_into(bool& value);
// Returns a reader of the mapping {level: ..., format: ...}.
YamlSetting::Reader log_into(log::Options& options);

// Reads a whole document. `name` is the file or flag that error messages name. A syntax error also
// names line and column.
Status read_settings(std::string_view yaml, const std::string& name, const YamlSetting::Reader& read);

// The place of each setting, by its path: "policies.shared" -> "f.yaml:3:3". For errors that are
// found only after all documents have been read.
using SettingPlaces = std::map<std::string, std::string, std::less<>>;
// Adds the places of the settings in a document. Replaces those from earlier documents.
void note_places(std::string_view yaml, const std::string& name, SettingPlaces& places);
// If the text of `error` starts with the path of a setting and a colon, returns `error` with the
// place of the setting prepended. Otherwise returns `error` unchanged.
Error with_place(const Error& error, const SettingPlaces& places);

// Returns the YAML document that a flag is equivalent to: ("policies: {{shared: {}}}", "fgd") ->
// "policies: {shared: 'fgd'}".
std::string flag_as_yaml(const char* form, const std::string& value);

}  // namespace tessera::daemon
