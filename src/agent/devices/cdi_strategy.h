// agent/devices/cdi_strategy.h
//
// Strategy `cdi`: each container gets a CDI device name of its own. The agent writes a spec file
// that maps the name to device nodes, files and variables (cdi_spec.h).
//
// Protection: the same as with `devices` (delivery_strategy.h). In addition, the variables in the
// file override those in the pod's own env.
//
// The agent can change the file before each start of the container. So a late decision or a driver
// update needs no new pod. A container that has started keeps its devices.
//
// A file is written atomically, and removed when the container with its CDI name is gone. The CDI
// name usually contains the UID of that container's pod. But kubelet's calls name no pod, so the
// agent may mistake the pod for another one. The CDI name then contains the UID of the other pod.
#pragma once

#include <string>
#include <utility>

#include "agent/devices/cdi_spec.h"
#include "agent/devices/delivery_strategy.h"

namespace tessera::agent {

class CdiStrategy final : public DeliveryStrategy {
 public:
  // `directory` is where the container runtime reads CDI specs, usually /var/run/cdi. The strategy
  // creates the directory if it is missing.
  CdiStrategy(std::string directory, CdiKind kind)
      : directory_(std::move(directory)), kind_(std::move(kind)) {}

  Status add(const ContainerEdits& container, ContainerResponse& response) override;
  Status before_start(const ContainerEdits& container) override;
  [[nodiscard]] bool can_update() const override { return true; }
  void remove_unneeded(const Needed& needed) override;

 private:
  [[nodiscard]] Result<std::vector<std::string>> devices_of(const ContainerEdits& container) const;
  Status write(const std::string& device, const ContainerEdits& container);
  [[nodiscard]] std::string path_of(const std::string& device) const;

  const std::string directory_;
  const CdiKind kind_;
};

}  // namespace tessera::agent
