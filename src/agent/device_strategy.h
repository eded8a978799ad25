// agent/device_strategy.h
//
// Strategy `devices`: the container gets the device nodes of its GPUs and the driver's libraries, by the
// means of kubelet alone. Needs no NVIDIA container runtime and no CDI.
//
// What it protects against: a container can open the device nodes it was given and no others, whatever its
// image or its pod says in NVIDIA_VISIBLE_DEVICES; a pod that asks for nothing has none. (Where NVIDIA's
// runtime is the default runtime all the same, it goes on obeying images: do not make it the default.)
//
// What is given is fixed when the pod is admitted. After an update of the driver its files have other names,
// and after a reboot a device node may be another GPU's: a container that would start with these is held, and
// must come from a new pod.
#pragma once

#include "agent/driver_files.h"
#include "agent/grant_strategy.h"

namespace tessera::agent {

class DeviceStrategy final : public GrantStrategy {
 public:
  explicit DeviceStrategy(DriverFilesOptions options) : files_(std::move(options)) {}

  Status add(const ContainerGpus& container, Grant& grant) override;
  Status before_start(const ContainerGpus& container) override;
  [[nodiscard]] std::string fixed(const Grant& grant) const override;
  [[nodiscard]] bool can_mend() const override { return false; }
  void keep_only(const Needed& /*needed*/) override {}

 private:
  DriverFilesCache files_;
};

// Adds nodes, mounts and LD_LIBRARY_PATH for these GPUs; nothing for none. Changes nothing when it fails.
Status add_driver(DriverFilesCache& files, const std::vector<alloc::Gpu>& gpus, Grant& grant);

}  // namespace tessera::agent
