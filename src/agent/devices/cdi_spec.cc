#include "agent/devices/cdi_spec.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>

#include "base/strings.h"

namespace tessera::agent {

namespace {

constexpr std::string_view kSuffixOfSpec = ".json";

// Returns whether the text has the form of a pod UID or a container name.
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

std::string CdiKind::qualified_name(const std::string& device) const {
  return fmt::format("{}={}", name_, device);
}

std::string CdiKind::file_name(const std::string& device) const {
  return fmt::format("{}{}{}", file_prefix_, device, kSuffixOfSpec);
}

std::optional<std::string> CdiKind::device_of_file(std::string_view file) const {
  if (!file.starts_with(file_prefix_) || !file.ends_with(kSuffixOfSpec) ||
      file.size() < file_prefix_.size() + kSuffixOfSpec.size()) {
    return std::nullopt;
  }
  const std::string_view device =
      file.substr(file_prefix_.size(), file.size() - file_prefix_.size() - kSuffixOfSpec.size());
  const std::size_t underscore = device.find('_');
  if (underscore == std::string_view::npos || !is_plain(device.substr(0, underscore)) ||
      !is_plain(device.substr(underscore + 1))) {
    return std::nullopt;
  }
  return std::string(device);
}

std::string pod_of_cdi_device(std::string_view device) {
  return std::string(device.substr(0, device.find('_')));
}

std::string CdiKind::spec(const std::string& device, const Edits& edits) const {
  boost::json::array env;
  for (const auto& [name, value] : edits.env) {
    env.emplace_back(fmt::format("{}={}", name, value));
  }
  boost::json::object changes{{"env", std::move(env)}};
  // Some runtimes reject an empty list.
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
      boost::json::object{{"cdiVersion", "0.6.0"}, {"kind", name_}, {"devices", std::move(devices)}});
}

}  // namespace tessera::agent
