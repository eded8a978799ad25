#include "agent/devices/device_strategy.h"

#include <fmt/core.h>

namespace tessera::agent {

Status DeviceStrategy::add(const ContainerEdits& container, Grant& grant) {
  const Edits edits = TRY(container.edits);
  grant.nodes.insert(grant.nodes.end(), edits.nodes.begin(), edits.nodes.end());
  grant.mounts.insert(grant.mounts.end(), edits.mounts.begin(), edits.mounts.end());
  grant.env.insert(edits.env.begin(), edits.env.end());
  return {};
}

// containerd makes a directory in place of a file that is to be mounted and is not there.
Status DeviceStrategy::before_start(const ContainerEdits& container) {
  const Edits now = TRY(container.edits);
  if (!container.fixed.empty() && container.fixed != now.fixed) {
    return fail(
        ErrorCode::kUnavailable,
        fmt::format("it was admitted with {}, and by now its {} are reached through {}; kubelet keeps "
                    "what it was given, so delete the pod and let it be created again",
                    container.fixed, many_, now.fixed));
  }
  return {};
}

}  // namespace tessera::agent
