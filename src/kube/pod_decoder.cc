#include "kube/pod_decoder.h"

#include <utility>
#include <vector>

#include "kube/object_json.h"
#include "kube/quantity_field.h"

namespace tessera::kube {

namespace {

using alloc::ContainerKind;
using alloc::ContainerSpec;
using alloc::ContainerState;
using alloc::PodPhase;
using alloc::PodSpec;
using simdjson::SUCCESS;

// Reads one pod; lives for one call of decode_pod().
class PodReader {
 public:
  PodReader(const alloc::ResourceNames& names, ObjectMeta& meta, PodSpec& pod)
      : names_(names), meta_(meta), pod_(pod) {}

  JsonError read(JsonObject& object) {
    return each_field(object, [&](JsonKey key, JsonValue value) {
      if (key == "metadata") {
        return read_metadata(value);
      }
      if (key == "spec") {
        return read_spec(value);
      }
      return key == "status" ? read_status(value) : SUCCESS;
    });
  }

  // What was well-formed but is not an amount.
  [[nodiscard]] const Status& amounts() const { return amounts_.status(); }

  // Init containers come first in a PodSpec and last in the JSON; their states come last of all.
  void put_together() {
    pod_.containers.insert(pod_.containers.begin(), std::make_move_iterator(init_.begin()),
                           std::make_move_iterator(init_.end()));
    for (const auto& [name, state] : states_) {
      for (ContainerSpec& container : pod_.containers) {
        if (container.name == name) {
          container.state = state;
        }
      }
    }
  }

 private:
  JsonError read_metadata(JsonValue metadata) {
    return each_field(metadata, [&](JsonKey key, JsonValue value) -> JsonError {
      bool taken = false;
      if (const JsonError error = read_meta_field(key, value, meta_, taken); taken || error != SUCCESS) {
        return error;
      }
      if (key == "deletionTimestamp") {
        pod_.deleting = !is_null(value);
        return SUCCESS;
      }
      if (key == "annotations") {
        return read_texts(value, pod_.annotations, true);
      }
      return key == "labels" ? read_texts(value, pod_.labels, false) : SUCCESS;
    });
  }

  JsonError read_texts(JsonValue map, alloc::Annotations& into, bool annotations) {
    return each_entry(map, [&](std::string_view key, JsonValue value) -> JsonError {
      if (key != names_.count() && !(annotations && alloc::key::is_pod_annotation(key))) {
        return SUCCESS;
      }
      // The key lives in the parser's buffer and is copied before the value is read into it.
      std::string& text = into[std::string(key)];
      return read_text(value, text);
    });
  }

  JsonError read_spec(JsonValue spec) {
    return each_field(spec, [&](JsonKey key, JsonValue value) {
      if (key == "containers") {
        return read_containers(value, pod_.containers, ContainerKind::kMain);
      }
      if (key == "initContainers") {
        return read_containers(value, init_, ContainerKind::kInit);
      }
      if (key == "nodeName") {
        return read_text(value, pod_.node_name);
      }
      if (key == "priority") {
        return value.is_null() ? SUCCESS : value.get_int64().get(pod_.priority);
      }
      if (key == "overhead") {
        return each_entry(value, [&](std::string_view name, JsonValue amount) {
          return read_cpu_or_memory(name, amount, pod_.overhead_cpu_milli, pod_.overhead_memory_bytes);
        });
      }
      return SUCCESS;
    });
  }

  JsonError read_containers(JsonValue list, std::vector<ContainerSpec>& into, ContainerKind kind) {
    return each_element(list, [&](JsonValue element) {
      ContainerSpec& container = into.emplace_back();
      container.kind = kind;
      return each_field(element, [&](JsonKey key, JsonValue value) -> JsonError {
        if (key == "name") {
          return read_text(value, container.name);
        }
        if (key == "resources") {
          return read_resources(value, container);
        }
        if (key == "restartPolicy" && kind == ContainerKind::kInit) {
          std::string_view policy;
          const JsonError error = value.get_string().get(policy);
          if (policy == "Always") {
            container.kind = ContainerKind::kSidecar;
          }
          return error;
        }
        return SUCCESS;
      });
    });
  }

  JsonError read_resources(JsonValue resources, ContainerSpec& container) {
    return each_field(resources, [&](JsonKey key, JsonValue value) {
      if (key == "limits") {
        return each_entry(value, [&](std::string_view name, JsonValue amount) {
          const auto resource = names_.find(name);
          if (!resource) {
            return SUCCESS;
          }
          Quantity quantity;
          const JsonError error = amounts_.read(name, amount, quantity);
          container.gpu_limits.emplace_back(*resource, quantity);
          return error;
        });
      }
      if (key == "requests") {
        return each_entry(value, [&](std::string_view name, JsonValue amount) {
          return read_cpu_or_memory(name, amount, container.cpu_milli, container.memory_bytes);
        });
      }
      return SUCCESS;
    });
  }

  JsonError read_cpu_or_memory(std::string_view name, JsonValue amount, std::int64_t& cpu,
                               std::int64_t& memory) {
    if (name == "cpu") {
      return amounts_.read_milli(name, amount, cpu);
    }
    return name == "memory" ? amounts_.read_whole(name, amount, memory) : SUCCESS;
  }

  JsonError read_status(JsonValue status) {
    return each_field(status, [&](JsonKey key, JsonValue value) -> JsonError {
      if (key == "phase") {
        std::string_view phase;
        const JsonError error = value.get_string().get(phase);
        pod_.phase = phase_of(phase);
        return error;
      }
      return key == "containerStatuses" || key == "initContainerStatuses" ? read_states(value) : SUCCESS;
    });
  }

  static PodPhase phase_of(std::string_view phase) {
    if (phase == "Pending" || phase.empty()) {
      return PodPhase::kPending;
    }
    if (phase == "Running") {
      return PodPhase::kRunning;
    }
    if (phase == "Succeeded") {
      return PodPhase::kSucceeded;
    }
    return phase == "Failed" ? PodPhase::kFailed : PodPhase::kUnknown;
  }

  JsonError read_states(JsonValue list) {
    return each_element(list, [&](JsonValue element) {
      auto& [name, state] = states_.emplace_back("", ContainerState::kNotStarted);
      return each_field(element, [&, &container = name, &found = state](JsonKey key, JsonValue value) {
        if (key == "name") {
          return read_text(value, container);
        }
        if (key != "state") {
          return SUCCESS;
        }
        return each_field(value, [&](JsonKey which, JsonValue) {
          if (which == "running") {
            found = ContainerState::kRunning;
          } else if (which == "terminated") {
            found = ContainerState::kTerminated;
          }
          return SUCCESS;
        });
      });
    });
  }

  const alloc::ResourceNames& names_;
  ObjectMeta& meta_;
  PodSpec& pod_;
  QuantityFields amounts_;
  std::vector<ContainerSpec> init_;
  std::vector<std::pair<std::string, ContainerState>> states_;
};

void clear(PodSpec& pod) {
  pod.node_name.clear();
  pod.phase = PodPhase::kPending;
  pod.deleting = false;
  pod.priority = 0;
  pod.containers.clear();
  pod.overhead_cpu_milli = 0;
  pod.overhead_memory_bytes = 0;
  pod.annotations.clear();
  pod.labels.clear();
}

}  // namespace

Status decode_pod(ObjectJson& object, const alloc::ResourceNames& names, ObjectMeta& meta, PodSpec& pod) {
  clear(pod);
  PodReader reader(names, meta, pod);
  const JsonError error = reader.read(object.object());
  pod.pod_namespace = meta.namespace_name;
  pod.name = meta.name;
  pod.uid = meta.uid;
  TRY(object.judge(error));
  TRY(reader.amounts());
  reader.put_together();
  return {};
}

}  // namespace tessera::kube
