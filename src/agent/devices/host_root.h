// agent/devices/host_root.h
//
// A directory of the host that this process sees under another path. The agent finds files under
// its own path and passes the host's path to kubelet.
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

  // on_host() returns the path on the host, local() the path for this process. `path` is relative
  // to the root, but begins with a slash.
  [[nodiscard]] std::string on_host(std::string_view path) const;
  [[nodiscard]] std::string local(std::string_view path) const;

  // Resolves all symbolic links in `path` as if the root were "/". So links within a driver that is
  // installed below this root lead to the right files, and no link leads out of the root. Returns
  // nullopt if the path does not exist.
  [[nodiscard]] std::optional<std::string> real_path(std::string_view path) const;

  // Returns the sorted names in a directory; empty if it is not a directory.
  [[nodiscard]] std::vector<std::string> list(std::string_view directory) const;
};

}  // namespace tessera::agent
