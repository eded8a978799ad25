// agent/devices/host_root.h
//
// A directory of the host that this process sees under another path. Files are looked up under our
// path and reported to kubelet under the host's path.
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

  // The path on the host, and for this process, of `path`, which begins with a slash and counts
  // from the root.
  [[nodiscard]] std::string on_host(std::string_view path) const;
  [[nodiscard]] std::string local(std::string_view path) const;

  // `path` with all symbolic links followed as if the root were "/". So the links of a driver that
  // is installed for another root lead to the right files, and no link leads out of the root.
  // Nothing if the path does not exist.
  [[nodiscard]] std::optional<std::string> real_path(std::string_view path) const;

  // The names in a directory, sorted; none if it is not a directory.
  [[nodiscard]] std::vector<std::string> list(std::string_view directory) const;
};

}  // namespace tessera::agent
