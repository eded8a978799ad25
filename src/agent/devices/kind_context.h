// agent/devices/device_strategy.h
//
// Strategy `devices`: the container gets device nodes and files by the means of kubelet alone. Needs no
// container runtime that knows the devices, and no CDI.
//
// What it protects against: a container can open the device nodes it was given and no others, whatever its
// image or its pod says in a variable; a pod that asks for nothing has none. (Where a runtime that obeys such
// variables, as NVIDIA's, is the default runtime all the same, it goes on obeying: do not make it the
// default.)
//
// What is given is fixed when the pod is admitted. After an update of a driver its files may have other
// names, and after a reboot a device node may be another device's: a container that would start with these is
// held, and must come from a new pod.
#pragma once

#include <string>
#include <utility>

#include "agent/devices/grant_strategy.h"

namespace tessera::agent {

class DeviceStrategy final : public GrantStrategy {
 public:
  // `many`: what people call the devices, "GPUs".
  explicit DeviceStrategy(std::string many) : many_(std::move(many)) {}

  Status add(const ContainerEdits& container, Grant& grant) override;
  Status before_start(const ContainerEdits& container) override;
  [[nodiscard]] std::string fixed(const Edits& edits) const override { return edits.fixed; }
  [[nodiscard]] bool can_mend() const override { return false; }

 private:
  const std::string many_;
};

}  // namespace tessera::agent
