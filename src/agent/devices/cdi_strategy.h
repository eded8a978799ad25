// agent/devices/cdi_strategy.h
//
// Strategy `cdi`: each container gets a CDI device name of its own. The agent writes a spec file
// that maps the name to device nodes, files and variables (cdi_spec.h).
//
// Protection: as with `devices`; in addition, the variables in the file override the pod's own env.
// The file can still be changed before each start of the container, so a late decision, another
// device or a driver update needs no new pod.
//
// A file is written atomically and removed when the container that has its name is gone. That
// container usually belongs to the pod whose UID is in the name, but not always: kubelet's calls
// name no pod, and the agent's guess may have been wrong.
#pragma once

#include <string>
#include <utility>

#include "agent/devices/cdi_spec.h"
#include "agent/devices/delivery_strategy.h"

namespace tessera::agent {

class CdiStrategy final : public DeliveryStrategy {
 public:
  // `directory` is where the container runtime reads CDI specs, by default /var/run/cdi. It is
  // created if it is missing.
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
