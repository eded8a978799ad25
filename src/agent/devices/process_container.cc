#include "agent/devices/process_container.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/file.h"
#include "base/strings.h"

namespace tessera::agent {

namespace {

constexpr std::size_t kMaxCgroupBytes = 64U << 10U;

bool is_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  });
}

// Parses a UID such as "1b4e28ba-2fa1-11d2-883f-0016d3cca427". systemd uses "_" for "-". UIDs of
// static pods have 32 digits without dashes.
std::optional<std::string> pod_uid(std::string_view text) {
  std::string uid(text);
  std::ranges::replace(uid, '_', '-');
  if (uid.size() < 32 || uid.size() > 36) {
    return std::nullopt;
  }
  for (const std::string_view part : split(uid, '-')) {
    if (part.empty() || !is_hex(part)) {
      return std::nullopt;
    }
  }
  return uid;
}

// Parses "pod<UID>" or "...-pod<UID>.slice".
std::optional<std::string> pod_of_segment(std::string_view segment) {
  if (segment.ends_with(".slice")) {
    segment.remove_suffix(std::string_view(".slice").size());
    const std::size_t pod = segment.rfind("-pod");
    return pod == std::string_view::npos ? std::nullopt : pod_uid(segment.substr(pod + 4));
  }
  return segment.starts_with("pod") ? pod_uid(segment.substr(3)) : std::nullopt;
}

// Parses "<ID>", "cri-containerd-<ID>.scope", "docker-<ID>.scope" or "crio-<ID>".
std::string container_of_segment(std::string_view segment) {
  if (segment.ends_with(".scope")) {
    segment.remove_suffix(std::string_view(".scope").size());
  }
  if (segment.starts_with("crio-conmon-")) {
    return "";  // CRI-O's monitor of the container
  }
  if (const std::size_t dash = segment.rfind('-'); dash != std::string_view::npos) {
    segment.remove_prefix(dash + 1);
  }
  return segment.size() >= 12 && is_hex(segment) ? std::string(segment) : "";
}

std::optional<ContainerRef> container_of_path(std::string_view path) {
  const auto segments = split(path, '/');
  for (std::size_t i = 0; i < segments.size(); ++i) {
    // If containerd uses systemd's names without systemd, one segment has slice, prefix and ID.
    const auto parts = split(segments[i], ':');
    if (parts.size() == 3) {
      if (auto uid = pod_of_segment(parts[0])) {
        return ContainerRef{.pod_uid = *std::move(uid), .container_id = container_of_segment(parts[2])};
      }
    }
    if (auto uid = pod_of_segment(segments[i])) {
      return ContainerRef{
          .pod_uid = *std::move(uid),
          .container_id = i + 1 < segments.size() ? container_of_segment(segments[i + 1]) : ""};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ContainerRef> container_of_cgroup(std::string_view text) {
  std::optional<ContainerRef> found;
  for (const std::string_view line : split(text, '\n')) {
    // "12:memory:/kubepods/..." or "0::/kubepods.slice/...".
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) {
      continue;
    }
    auto here = container_of_path(line.substr(second + 1));
    // In version 1, not every controller has a group for each container.
    if (here && (!found || found->container_id.empty())) {
      found = std::move(here);
    }
  }
  return found;
}

std::optional<ContainerRef> container_of_process(const std::string& proc_root, std::uint32_t pid) {
  const auto text = read_file(fmt::format("{}/{}/cgroup", proc_root, pid), kMaxCgroupBytes);
  return text ? container_of_cgroup(*text) : std::nullopt;
}

std::optional<ContainerName> name_of_container(const std::vector<const alloc::PodSpec*>& pods,
                                               const ContainerRef& container) {
  const auto pod =
      std::ranges::find_if(pods, [&](const alloc::PodSpec* one) { return one->uid == container.pod_uid; });
  if (pod == pods.end()) {
    return std::nullopt;
  }
  const auto& all = (*pod)->containers;
  const auto by_id = std::ranges::find_if(all, [&](const alloc::ContainerSpec& one) {
    return !one.id.empty() && one.id == container.container_id;
  });
  ContainerName name{.pod = {.namespace_name = (*pod)->namespace_name, .name = (*pod)->name},
                     .pod_uid = (*pod)->uid,
                     .container = ""};
  if (by_id != all.end()) {
    name.container = by_id->name;
  } else if (all.size() == 1) {
    name.container = all.front().name;
  }
  return name;
}

}  // namespace tessera::agent
