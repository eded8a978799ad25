// daemon/config_flags.h
//
// The command line of a daemon: --config FILE, --check-config, and flags that set single settings of the
// configuration.
//
//   constexpr ConfigFlag kFlags[] = {{"--unit", "unit: {}", "..."}};
//   CLI::App app("...", "tessera-agent");
//   ConfigFlags flags(app, kFlags, "docs/reference.md");
//   if (const std::optional<int> code = flags.parse(argc, argv)) return *code;
//   TRY(flags.load({.apply = [&](std::string_view yaml, const std::string& name) { ... },
//                   .check = [&] { return check(config); }}));
//
// Every flag stands for a setting of the file. The same code reads and checks the value in both
// cases, and the flag overrides the file.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace tessera::daemon {

// Returns the value of an environment variable; nullopt if it is not set.
using Environment = std::function<std::optional<std::string>(const char*)>;
std::optional<std::string> process_environment(const char* name);

struct ConfigFlag {
  const char* name;
  // The YAML of the setting, as a format for fmt: {} is the value, and a brace is written twice:
  // "policies: {{shared: {}}}".
  const char* yaml;
  const char* help;
};

class ConfigFlags {
 public:
  // Adds the flags to `app`. `documentation` is the page that --help names. `flags` must outlive
  // this object; `app` must exist until parse() returns.
  ConfigFlags(CLI::App& app, std::span<const ConfigFlag> flags, const std::string& documentation);
  ConfigFlags(const ConfigFlags&) = delete;
  ConfigFlags& operator=(const ConfigFlags&) = delete;

  // Parses the command line. Returns an exit code if the program must end: after --help or
  // --version, or after a usage error. The text or the error has then been printed. Returns nullopt
  // otherwise.
  std::optional<int> parse(int argc, const char* const* argv);

  // Returns whether --check-config is on the command line.
  [[nodiscard]] bool check_only() const { return check_only_; }

  struct Readers {
    // Reads a YAML document into the configuration. Settings that the document does not contain
    // keep their values. `name` is the file or flag that error messages name.
    std::function<Status(std::string_view yaml, const std::string& name)> apply;
    // Validates the complete configuration. If an error starts with the path of a setting and a
    // colon ("lease.duration: ..."), load() prepends the position of that setting in the file.
    std::function<Status()> check;
  };
  // Applies the file, then the flags, then validates the configuration. May be called again to
  // reload the file. Errors begin with "FILE:LINE:COLUMN:" or the name of a flag.
  Status load(const Readers& readers) const;

 private:
  CLI::App& app_;
  std::span<const ConfigFlag> flags_;
  std::vector<std::unique_ptr<std::string>> values_;  // one for each flag
  std::vector<std::size_t> given_;                    // indices of the flags on the command line
  std::string file_;
  bool check_only_ = false;
};

}  // namespace tessera::daemon
