#include "daemon/config_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/file.h"
#include "base/version.h"
#include "daemon/yaml_setting.h"

namespace tessera::daemon {

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

ConfigFlags::ConfigFlags(CLI::App& app, std::span<const ConfigFlag> flags, const std::string& documentation)
    : app_(app), flags_(flags) {
  app.set_version_flag("--version", std::string(version()));
  app.add_option("--config", file_, "YAML file; " + documentation + " lists every setting")
      ->option_text("FILE");
  for (const ConfigFlag& flag : flags) {
    values_.push_back(std::make_unique<std::string>());
    app.add_option(flag.name, *values_.back(), flag.help)->option_text("VALUE");
  }
  app.add_flag("--check-config", check_only_, "Check the configuration, report mistakes and exit");
}

std::optional<int> ConfigFlags::parse(int argc, const char* const* argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_.exit(error) == 0 ? 0 : 2;
  }
  for (std::size_t i = 0; i < flags_.size(); ++i) {
    if (app_.count(flags_[i].name) > 0) {
      given_.push_back(i);
    }
  }
  return std::nullopt;
}

Status ConfigFlags::load(const Readers& readers) const {
  constexpr std::size_t kMaxFileBytes = 1U << 20U;
  SettingPlaces places;
  const auto apply = [&](const std::string& yaml, const std::string& name) -> Status {
    TRY(readers.apply(yaml, name));
    note_places(yaml, name, places);
    return {};
  };
  if (!file_.empty()) {
    const std::string yaml = TRY(read_file(file_, kMaxFileBytes));
    TRY(apply(yaml, file_));
  }
  for (const std::size_t i : given_) {
    TRY(apply(flag_as_yaml(flags_[i].yaml, *values_[i]), flags_[i].name));
  }
  if (const Status checked = readers.check(); !checked) {
    return fail(with_place(checked.error(), places));
  }
  return {};
}

}  // namespace tessera::daemon
