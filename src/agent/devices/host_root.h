// agent/devices/host_root.h
//
// A directory of the host that we see under another name: what lies there is looked up here, and told to
// kubelet under the host's name.
//
//   HostRoot driver{.host = "/run/nvidia/driver", .here = "/driver-root"};
//   driver.real_path("/usr/lib/libcuda.so.1");      // "/usr/lib/libcuda.so.550.54.15"
//   driver.on_host("/usr/lib/x");                   // "/run/nvidia/driver/usr/lib/x"
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::agent {

struct HostRoot {
  std::string host = "/";
  std::string here = "/";

  // Where `path`, which begins with a slash and counts from the root, lies for the host and for us.
  [[nodiscard]] std::string on_host(std::string_view path) const;
  [[nodiscard]] std::string local(std::string_view path) const;

  // `path` with all symbolic links followed as if the root were "/": the links of a driver that is installed
  // for another root lead to the right files, and none leads out of it. Nothing when it leads nowhere.
  [[nodiscard]] std::optional<std::string> real_path(std::string_view path) const;

  // Names in a directory, sorted; none when it is no directory.
  [[nodiscard]] std::vector<std::string> list(std::string_view directory) const;
};

}  // namespace tessera::agent
