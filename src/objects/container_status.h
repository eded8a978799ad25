// objects/container_status.h
//
// The part of decode_pod() that reads one element of status.containerStatuses. Includes simdjson, so
// include this header only in .cc files.
#pragma once

#include <string>

#include "alloc/pod.h"
#include "objects/object_fields.h"

namespace tessera::objects {

struct ContainerStatus {
  std::string name;
  alloc::ContainerState state = alloc::ContainerState::kNotStarted;
  bool ran_before = false;
  std::string id;       // without the scheme
  std::string waiting;  // the message of the state `waiting`
};

// Reads `id` only if `with_id` is true, and `waiting` only if `with_waiting` is true.
JsonError read_container_status(JsonValue element, bool with_id, bool with_waiting, ContainerStatus& status);

}  // namespace tessera::objects
