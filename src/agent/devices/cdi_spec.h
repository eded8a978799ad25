// agent/devices/cdi_spec.h
//
// A CDI specification for one container: the file that tells container runtimes what a device name
// stands for. Pure.
//
//              name                                        file
//   GPUs       tessera.io/gpu=<pod UID>_<container>        tessera-<pod UID>_<container>.json
//   others     tessera.io/NAME=<pod UID>_<container>       tessera.NAME.<pod UID>_<container>.json
//
// Its variables are applied last: they override those of the image, of Allocate and of the pod.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/devices/device.h"
#include "base/result.h"

namespace tessera::agent {

// The names and files of one kind of device. Kinds do not mistake each other's files.
class CdiKind {
 public:
  // `name`: letters and digits.
  static CdiKind of(const std::string& name) { return {"tessera.io/" + name, "tessera." + name + "."}; }
  // A kind whose files have another prefix: "tessera.io/gpu", "tessera-".
  CdiKind(std::string name, std::string file_prefix)
      : name_(std::move(name)), file_prefix_(std::move(file_prefix)) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string qualified_name(const std::string& device) const;
  [[nodiscard]] std::string file_name(const std::string& device) const;
  // The device of a file; nothing if the file does not belong to this kind.
  [[nodiscard]] std::optional<std::string> device_of_file(std::string_view file) const;

  // The document, JSON of CDI 0.6.
  [[nodiscard]] std::string spec(const std::string& device, const Edits& edits) const;

 private:
  std::string name_;
  std::string file_prefix_;
};

// The name of a container's device within its kind. Fails if the UID or the container cannot be
// part of a file name: they come from outside.
Result<std::string> cdi_device_name(const std::string& pod_uid, const std::string& container);
// The pod UID in the name of a device.
std::string pod_of_cdi_device(std::string_view device);

}  // namespace tessera::agent
