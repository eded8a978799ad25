#include "agent/devices/host_root.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <ranges>
#include <string_view>

#include "base/strings.h"

namespace tessera::agent {

namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // the same limit as in the kernel

std::string below(std::string_view root, std::string_view path) {
  while (!root.empty() && root.back() == '/') {
    root.remove_suffix(1);
  }
  return std::string(root) + std::string(path);
}

// Adds the components of `path` before those that remain to be resolved.
void prepend(std::deque<std::string>& left, const std::string& path) {
  const auto parts = split(path, '/');
  for (const std::string_view part : std::views::reverse(parts)) {
    if (!part.empty() && part != ".") {
      left.emplace_front(part);
    }
  }
}

}  // namespace

std::string HostRoot::on_host(std::string_view path) const {
  return below(host, path);
}

std::string HostRoot::local(std::string_view path) const {
  return below(here, path);
}

std::optional<std::string> HostRoot::real_path(std::string_view path) const {
  std::deque<std::string> left;
  prepend(left, std::string(path));
  std::string real;
  int links = 0;
  while (!left.empty()) {
    const std::string part = std::move(left.front());
    left.pop_front();
    if (part == "..") {
      const std::size_t slash = real.rfind('/');
      real.resize(slash == std::string::npos ? 0 : slash);
      continue;
    }
    const std::string next = fmt::format("{}/{}", real, part);
    std::error_code error;
    const fs::file_status status = fs::symlink_status(local(next), error);
    if (error || status.type() == fs::file_type::not_found) {
      return std::nullopt;
    }
    if (status.type() != fs::file_type::symlink) {
      real = next;
      continue;
    }
    const fs::path target = fs::read_symlink(local(next), error);
    if (error || ++links > kMaxLinks) {
      return std::nullopt;
    }
    if (target.is_absolute()) {
      real.clear();
    }
    prepend(left, target.string());
  }
  return real.empty() ? "/" : real;
}

std::vector<std::string> HostRoot::list(std::string_view directory) const {
  std::vector<std::string> names;
  const auto real = real_path(directory);
  if (!real) {
    return names;
  }
  std::error_code error;
  for (fs::directory_iterator entry(local(*real), error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace tessera::agent
