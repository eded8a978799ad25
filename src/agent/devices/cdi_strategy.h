// agent/devices/cdi_strategy.h
//
// Strategy `cdi`: the container gets one CDI device name of its own, and a file that the agent writes says
// what it stands for: device nodes, files and variables (cdi_spec.h).
//
// What it protects against: all that `devices` does, and more: the variables in the file win over the pod's
// own env, and the file can still be changed before each start of the container, so that a decision that came
// late, another device or an updated driver need no new pod.
//
// A file is written in one step, and goes when the container that was given its name has gone: mostly that of
// the pod whose UID it carries, but kubelet's questions name no pod, and the guess may have been wrong.
#pragma once

#include <string>
#include <utility>

#include "agent/devices/cdi_spec.h"
#include "agent/devices/grant_strategy.h"

namespace tessera::agent {

class CdiStrategy final : public GrantStrategy {
 public:
  // `directory`: one that the container runtime reads, /var/run/cdi by default; made when it is missing.
  CdiStrategy(std::string directory, CdiKind kind)
      : directory_(std::move(directory)), kind_(std::move(kind)) {}

  Status add(const ContainerEdits& container, Grant& grant) override;
  Status before_start(const ContainerEdits& container) override;
  [[nodiscard]] bool can_mend() const override { return true; }
  void keep_only(const Needed& needed) override;

 private:
  [[nodiscard]] Result<std::vector<std::string>> devices_of(const ContainerEdits& container) const;
  Status write(const std::string& device, const ContainerEdits& container);
  [[nodiscard]] std::string path_of(const std::string& device) const;

  const std::string directory_;
  const CdiKind kind_;
};

}  // namespace tessera::agent
