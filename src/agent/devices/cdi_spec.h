// agent/devices/cdi_spec.h
//
// Builds the CDI spec of one container: the file that maps a CDI device name to device nodes,
// mounts and variables. The container runtime reads it. Pure.
//
//              name                                        file
//   GPUs       tessera.io/gpu=<pod UID>_<container>        tessera-<pod UID>_<container>.json
//   others     tessera.io/NAME=<pod UID>_<container>       tessera.NAME.<pod UID>_<container>.json
//
// The runtime applies the variables of the spec last, so they override the variables of the image,
// of the Allocate response and of the pod.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/devices/device.h"
#include "base/result.h"

namespace tessera::agent {

// The CDI names and spec files of one kind of device. No two kinds share a file name.
class CdiKind {
 public:
  // `name` consists of letters and digits.
  static CdiKind of(const std::string& name) { return {"tessera.io/" + name, "tessera." + name + "."}; }
  // For a kind with another file prefix, such as GPUs: "tessera.io/gpu", "tessera-".
  CdiKind(std::string name, std::string file_prefix)
      : name_(std::move(name)), file_prefix_(std::move(file_prefix)) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  // In the functions below, `device` is the result of cdi_device_name().
  [[nodiscard]] std::string qualified_name(const std::string& device) const;
  [[nodiscard]] std::string file_name(const std::string& device) const;
  // Returns the device name in a file name; nullopt if the file does not belong to this kind.
  [[nodiscard]] std::optional<std::string> device_of_file(std::string_view file) const;

  // Returns the spec that maps the name of `device` to `edits`, as JSON of CDI version 0.6.0.
  [[nodiscard]] std::string spec(const std::string& device, const Edits& edits) const;

 private:
  std::string name_;
  std::string file_prefix_;
};

// Returns the name of a container's CDI device without the kind: "<pod UID>_<container>". Both
// arguments may come from outside the agent. Fails with kInvalid if one of them is not valid in a
// file name.
Result<std::string> cdi_device_name(const std::string& pod_uid, const std::string& container);
// Returns the pod UID in such a name: the part before "_".
std::string pod_of_cdi_device(std::string_view device);

}  // namespace tessera::agent
