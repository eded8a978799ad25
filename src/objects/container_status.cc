#include "objects/container_status.h"

#include "objects/pod_details_reader.h"

namespace tessera::objects {

namespace {

using alloc::ContainerState;
using simdjson::SUCCESS;

// Reads "containerd://5d3c..." without the scheme.
JsonError read_id(JsonValue value, std::string& id) {
  const JsonError error = read_text(value, id);
  if (const std::size_t scheme = id.find("://"); scheme != std::string::npos) {
    id.erase(0, scheme + 3);
  }
  return error;
}

// While kubelet waits to restart a crashed container, its state is "waiting", as if it had never
// run.
JsonError read_restarts(JsonValue value, bool& ran_before) {
  std::int64_t restarts = 0;
  const JsonError error = is_null(value) ? SUCCESS : value.get_int64().get(restarts);
  ran_before = ran_before || restarts > 0;
  return error;
}

JsonError read_last_state(JsonValue value, bool& ran_before) {
  return each_field(value, [&](JsonKey which, JsonValue /*inside*/) -> JsonError {
    ran_before = ran_before || is(which, "terminated");
    return SUCCESS;
  });
}

JsonError read_state(JsonValue value, bool with_waiting, ContainerStatus& status) {
  return each_field(value, [&](JsonKey which, JsonValue inside) -> JsonError {
    if (is(which, "running")) {
      status.state = ContainerState::kRunning;
    } else if (is(which, "terminated")) {
      status.state = ContainerState::kTerminated;
    } else if (with_waiting && is(which, "waiting")) {
      return PodDetailsReader::waiting(inside, status.waiting);
    }
    return SUCCESS;
  });
}

}  // namespace

JsonError read_container_status(JsonValue element, bool with_id, bool with_waiting, ContainerStatus& status) {
  return each_field(element, [&](JsonKey key, JsonValue value) -> JsonError {
    if (is(key, "name")) {
      return read_text(value, status.name);
    }
    if (with_id && is(key, "containerID")) {
      return read_id(value, status.id);
    }
    if (is(key, "restartCount")) {
      return read_restarts(value, status.ran_before);
    }
    if (is(key, "lastState")) {
      return read_last_state(value, status.ran_before);
    }
    return is(key, "state") ? read_state(value, with_waiting, status) : SUCCESS;
  });
}

}  // namespace tessera::objects
