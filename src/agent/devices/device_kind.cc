#include "agent/devices/device_kind.h"

#include <fmt/core.h>

#include <set>

namespace tessera::agent {

Result<Decided> DeviceKind::accept_allocated(const NodePod& /*pod*/, const std::string& container,
                                             const Decided& decided, const Allocation* allocated) const {
  if (allocated == nullptr || allocated->shares == decided.shares) {
    return decided;
  }
  return fail(ErrorCode::kUnavailable,
              allocated->shares.empty()
                  ? fmt::format("container {} was admitted without a {}", container, info_.one)
                  : fmt::format("container {} has different {}", container, info_.many));
}

bool add_unlisted(const std::vector<std::string>& ids, std::vector<Device>& list) {
  std::set<std::string> missing(ids.begin(), ids.end());
  for (const Device& device : list) {
    missing.erase(device.id);
  }
  for (const std::string& id : missing) {
    list.push_back({.id = id, .healthy = false});
  }
  return !missing.empty();
}

}  // namespace tessera::agent
