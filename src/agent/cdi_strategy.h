// agent/cdi_strategy.h
//
// Strategy `cdi`: the container gets one CDI device name of its own, and a file that the agent writes says
// what it stands for: device nodes, driver libraries and variables (cdi_spec.h).
//
// What it protects against: all that `devices` does, and more: the variables in the file win over the pod's
// own env, and the file can still be changed before each start of the container, so that a decision that came
// late, another GPU or an updated driver need no new pod.
//
// A file is written in one step, and goes when the container that was given its name has gone: mostly that of
// the pod whose UID it carries, but kubelet's questions name no pod, and the guess may have been wrong.
#pragma once

#include <string>

#include "agent/driver_files.h"
#include "agent/grant_strategy.h"

namespace tessera::agent {

class CdiStrategy final : public GrantStrategy {
 public:
  // `directory`: one that the container runtime reads, /var/run/cdi by default; made when it is missing.
  CdiStrategy(std::string directory, DriverFilesOptions options)
      : directory_(std::move(directory)), files_(std::move(options)) {}

  Status add(const ContainerGpus& container, Grant& grant) override;
  Status before_start(const ContainerGpus& container) override;
  [[nodiscard]] bool can_mend() const override { return true; }
  void keep_only(const Needed& needed) override;

 private:
  using Env = std::map<std::string, std::string>;

  Status write(const std::string& device, const ContainerGpus& container, Env env);
  [[nodiscard]] std::string path_of(const std::string& device) const;

  const std::string directory_;
  DriverFilesCache files_;
};

}  // namespace tessera::agent
