// agent/devices/cdi_spec.h
//
// A CDI specification for one container: the file by which container runtimes learn what a device name
// stands for. Pure.
//
//              name                                        file
//   GPUs       tessera.io/gpu=<pod UID>_<container>        tessera-<pod UID>_<container>.json
//   others     tessera.io/NAME=<pod UID>_<container>       tessera.NAME.<pod UID>_<container>.json
//
// What stands in it comes last of all: its variables win over the image's, over Allocate's and over the
// pod's own.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/devices/device.h"
#include "base/result.h"

namespace tessera::agent {

// How the devices of one kind are called. Kinds do not take each other's files for their own.
class CdiKind {
 public:
  // `name`: letters and digits.
  static CdiKind of(const std::string& name) { return {"tessera.io/" + name, "tessera." + name + "."}; }
  // A kind that has files by another name: "tessera.io/gpu", "tessera-".
  CdiKind(std::string name, std::string file_prefix)
      : name_(std::move(name)), file_prefix_(std::move(file_prefix)) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string qualified_name(const std::string& device) const;
  [[nodiscard]] std::string file_name(const std::string& device) const;
  // The device that a file is of; nothing when the file is none of this kind.
  [[nodiscard]] std::optional<std::string> device_of_file(std::string_view file) const;

  // The document, JSON of CDI 0.6.
  [[nodiscard]] std::string spec(const std::string& device, const Edits& edits) const;

 private:
  std::string name_;
  std::string file_prefix_;
};

// The name of the device within its kind. Fails for a UID or a container that cannot be part of a file's
// name: they come from outside.
Result<std::string> cdi_device_name(const std::string& pod_uid, const std::string& container);
// The pod whose UID a device's name carries.
std::string pod_of_cdi_device(std::string_view device);

}  // namespace tessera::agent
