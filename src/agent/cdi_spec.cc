#include "agent/cdi_spec.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/strings.h"

namespace tessera::agent {

namespace {

constexpr std::string_view kPrefix = "tessera-";
constexpr std::string_view kSuffix = ".json";

// UIDs and names of containers have nothing else.
bool is_plain(std::string_view text) {
  return !text.empty() && text.size() <= 128 && text.front() != '-' && text.back() != '-' &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
         });
}

}  // namespace

Result<std::string> cdi_device_name(const std::string& pod_uid, const std::string& container) {
  if (!is_plain(pod_uid) || !is_plain(container)) {
    return fail(ErrorCode::kInvalid, fmt::format("pod UID {} and container {} do not make a CDI device name",
                                                 in_quotes(pod_uid), in_quotes(container)));
  }
  return pod_uid + "_" + container;
}

std::string cdi_qualified_name(const std::string& device) {
  return fmt::format("{}={}", kCdiKind, device);
}

std::string cdi_file_name(const std::string& device) {
  return fmt::format("{}{}{}", kPrefix, device, kSuffix);
}

std::optional<std::string> device_of_cdi_file(std::string_view file) {
  if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) {
    return std::nullopt;
  }
  const std::string_view device = file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
  const std::size_t line = device.find('_');
  if (line == std::string_view::npos || !is_plain(device.substr(0, line)) ||
      !is_plain(device.substr(line + 1))) {
    return std::nullopt;
  }
  return std::string(device);
}

std::string pod_of_cdi_device(std::string_view device) {
  return std::string(device.substr(0, device.find('_')));
}

std::string cdi_spec(const std::string& device, const Grant& edits) {
  boost::json::array env;
  for (const auto& [name, value] : edits.env) {
    env.emplace_back(fmt::format("{}={}", name, value));
  }
  boost::json::object changes{{"env", std::move(env)}};
  // An empty list is not valid everywhere.
  if (!edits.nodes.empty()) {
    boost::json::array nodes;
    for (const DeviceNode& node : edits.nodes) {
      nodes.push_back(boost::json::object{
          {"path", node.container_path}, {"hostPath", node.host_path}, {"permissions", node.permissions}});
    }
    changes["deviceNodes"] = std::move(nodes);
  }
  if (!edits.mounts.empty()) {
    boost::json::array mounts;
    for (const MountPoint& mount : edits.mounts) {
      boost::json::array options{mount.read_only ? "ro" : "rw", "nosuid", "nodev", "bind"};
      mounts.push_back(boost::json::object{{"hostPath", mount.host_path},
                                           {"containerPath", mount.container_path},
                                           {"options", std::move(options)}});
    }
    changes["mounts"] = std::move(mounts);
  }
  boost::json::array devices;
  devices.push_back(boost::json::object{{"name", device}, {"containerEdits", std::move(changes)}});
  return boost::json::serialize(
      boost::json::object{{"cdiVersion", "0.6.0"}, {"kind", kCdiKind}, {"devices", std::move(devices)}});
}

Result<std::map<std::string, std::string>> cdi_spec_env(std::string_view document) {
  const boost::json::value parsed = TRY(parse_json(document));
  std::map<std::string, std::string> env;
  for (const JsonReader& device : TRY(JsonReader(parsed, "CDI spec").array("devices", 1))) {
    const JsonReader edits = TRY(device.object("containerEdits"));
    for (const JsonReader& entry : TRY(edits.array("env", 1000))) {
      const std::string text = TRY(entry.as_text());
      const std::size_t equals = text.find('=');
      if (equals == std::string::npos) {
        return fail(entry.wrong("is not NAME=VALUE"));
      }
      env[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  return env;
}

}  // namespace tessera::agent
