#include "agent/devices/device_kind.h"

#include <fmt/core.h>

#include <algorithm>

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

std::optional<std::vector<Share>> DeviceKind::seen(const Env& handed,
                                                   const std::vector<Share>& /*decided*/) const {
  const Env none = env_of_none();
  const bool nothing = !none.empty() && std::ranges::includes(handed, none);
  return nothing ? std::optional(std::vector<Share>()) : std::nullopt;
}

}  // namespace tessera::agent
