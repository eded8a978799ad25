#include "agent/devices/device_kind.h"

#include <fmt/core.h>

namespace tessera::agent {

Result<Decided> DeviceKind::as_given(const NodePod& /*pod*/, const std::string& container,
                                     const Decided& decided, const Allocation* given) const {
  if (given == nullptr || given->shares == decided.shares) {
    return decided;
  }
  return fail(ErrorCode::kUnavailable,
              given->shares.empty()
                  ? fmt::format("container {} was admitted without a {}", container, words().one)
                  : fmt::format("container {} has others", container));
}

}  // namespace tessera::agent
