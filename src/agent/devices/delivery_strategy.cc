#include "agent/devices/delivery_strategy.h"

#include <fmt/core.h>

namespace tessera::agent {

Status DeviceStrategy::add(const ContainerEdits& container, ContainerResponse& response) {
  const Edits edits = TRY(container.edits);
  response.nodes.insert(response.nodes.end(), edits.nodes.begin(), edits.nodes.end());
  response.mounts.insert(response.mounts.end(), edits.mounts.begin(), edits.mounts.end());
  response.env.insert(edits.env.begin(), edits.env.end());
  return {};
}

// container.edits is an error if a file is missing. This is checked before each start, because
// containerd creates a directory in place of a missing file that it should mount.
Status DeviceStrategy::before_start(const ContainerEdits& container) {
  const Edits now = TRY(container.edits);
  if (!container.fixed.empty() && container.fixed != now.fixed) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("it was admitted with {}, but its {} are now reached through {}; kubelet keeps "
                            "what the pod was admitted with, so delete the pod and let it be created again",
                            container.fixed, many_, now.fixed));
  }
  return {};
}

}  // namespace tessera::agent
