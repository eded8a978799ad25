#include "settings.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>

#include "base/file.h"
#include "base/strings.h"

namespace tessera::nvml_sim {

namespace {

std::string from_environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::string(value);
}

// Returns the directory that this library was loaded from.
std::string library_directory() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&read_settings), &info) == 0 || info.dli_fname == nullptr) {
    return ".";
  }
  const std::string path = info.dli_fname;
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string below(const std::string& directory, const std::string& path) {
  return path.empty() || path.starts_with('/') ? path : directory + "/" + path;
}

}  // namespace

Result<Settings> parse_settings(const std::string& yaml, const std::string& directory) {
  try {
    const YAML::Node root = YAML::Load(yaml);
    Settings settings;
    if (!root.IsMap()) {
      return fail(ErrorCode::kInvalid, "not a map with the keys machine, node and control");
    }
    for (const auto& entry : root) {
      const std::string key = entry.first.as<std::string>();
      const std::string value = entry.second.as<std::string>();
      if (key == "machine") {
        // A path contains a slash or ends in .yaml. Anything else is a built-in machine.
        const bool is_path = value.find('/') != std::string::npos || value.ends_with(".yaml");
        settings.machine = is_path ? below(directory, value) : value;
      } else if (key == "node") {
        settings.node = value;
      } else if (key == "control") {
        settings.control = below(directory, value);
      } else {
        return fail(ErrorCode::kInvalid,
                    fmt::format("unknown key {}; use machine, node or control", in_quotes(key)));
      }
    }
    if (settings.machine.empty()) {
      return fail(ErrorCode::kInvalid, "the key \"machine\" is missing");
    }
    return settings;
  } catch (const YAML::Exception& error) {
    return fail(ErrorCode::kInvalid, error.what());
  }
}

Result<Settings> read_settings() {
  Settings settings;
  settings.machine = from_environment("TESSERA_SIM_MACHINE", "");
  if (!settings.machine.empty()) {
    settings.node = from_environment("TESSERA_SIM_NODE", settings.node);
    settings.control = from_environment("TESSERA_SIM_CONTROL", "");
    return settings;
  }
  const std::string directory = library_directory();
  const std::string file = fmt::format("{}/{}", directory, kSettingsFile);
  const auto text = read_file(file);
  if (!text) {
    return fail(ErrorCode::kNotFound,
                fmt::format("no machine to simulate: set TESSERA_SIM_MACHINE, or write {}", file));
  }
  return with_context(parse_settings(*text, directory), file);
}

}  // namespace tessera::nvml_sim
