// agent/cdi_spec.h
//
// A CDI specification for one container: the file by which container runtimes learn what a device name
// stands for. Pure.
//
//   name    tessera.io/gpu=<pod UID>_<container>
//   file    tessera-<pod UID>_<container>.json
//
// What stands in it comes last of all: its variables win over the image's, over Allocate's and over the
// pod's own.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/device_kind.h"
#include "base/result.h"

namespace tessera::agent {

inline constexpr std::string_view kCdiKind = "tessera.io/gpu";

// The name of the device within its kind. Fails for a UID or a container that cannot be part of a file's
// name: they come from outside.
Result<std::string> cdi_device_name(const std::string& pod_uid, const std::string& container);

std::string cdi_qualified_name(const std::string& device);
std::string cdi_file_name(const std::string& device);
// The device that a file is of; nothing when the file is none of ours.
std::optional<std::string> device_of_cdi_file(std::string_view file);
// The pod whose UID a device's name carries.
std::string pod_of_cdi_device(std::string_view device);

// The document, JSON of CDI 0.6. `edits` uses env, nodes and mounts.
std::string cdi_spec(const std::string& device, const Grant& edits);

// The variables in such a document; for one that an earlier process wrote.
Result<std::map<std::string, std::string>> cdi_spec_env(std::string_view document);

}  // namespace tessera::agent
