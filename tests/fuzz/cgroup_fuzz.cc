// Any text gives no pod, or a pod UID and a container ID that are safe in a file name.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "agent/devices/process_container.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto plain = [](std::string_view text) {
    return std::ranges::all_of(text, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '-';
    });
  };
  const auto found = tessera::agent::container_of_cgroup({reinterpret_cast<const char*>(data), size});
  if (found && (found->pod_uid.size() < 32 || !plain(found->pod_uid) || !plain(found->container_id))) {
    std::abort();
  }
  return 0;
}
