#include "objects/pod_decoder.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "objects/container_status.h"
#include "objects/object_fields.h"
#include "objects/pod_details_reader.h"
#include "objects/quantity_field.h"

namespace tessera::objects {

namespace {

using alloc::ContainerKind;
using alloc::ContainerSpec;
using alloc::ContainerState;
using alloc::PodPhase;
using alloc::PodSpec;
using simdjson::SUCCESS;

// Reads one pod. Exists for one call of decode_pod().
class PodReader {
 public:
  PodReader(const alloc::ResourceNames& names, ObjectMeta& meta, PodSpec& pod, const PodExtras& extras)
      : names_(names),
        meta_(meta),
        pod_(pod),
        container_ids_(extras.container_ids),
        resources_(extras.resources),
        label_hashes_(extras.labels) {
    if (extras.details != nullptr) {
      details_.emplace(*extras.details);
    }
    if (label_hashes_ != nullptr) {
      label_hashes_->clear();
    }
  }

  JsonError read(JsonObject& object) {
    return each_field(object, [&](JsonKey key, JsonValue value) {
      if (is(key, "metadata")) {
        return read_metadata(value);
      }
      if (is(key, "spec")) {
        return read_spec(value);
      }
      return is(key, "status") ? read_status(value) : SUCCESS;
    });
  }

  // Returns the first malformed amount, if any.
  [[nodiscard]] const Status& amounts() const { return amounts_.status(); }

  // Moves the init containers to the front, where PodSpec has them; in the JSON they are after the
  // others. Removes what is left of the previous pod.
  void finish() {
    pod_.containers.resize(containers_);
    drop_unseen(pod_.annotations, annotations_);
    drop_unseen(pod_.labels, labels_);
    pod_.containers.insert(pod_.containers.begin(), std::make_move_iterator(init_.begin()),
                           std::make_move_iterator(init_.end()));
    for (const ContainerStatus& status : early_statuses_) {
      set_status(status);
    }
  }

 private:
  JsonError read_metadata(JsonValue metadata) {
    return each_meta_field(metadata, meta_, [&](JsonKey key, JsonValue value) -> JsonError {
      if (is(key, "deletionTimestamp")) {
        pod_.deleting = !is_null(value);
        return SUCCESS;
      }
      if (is(key, "annotations")) {
        return read_texts(value, pod_.annotations, annotations_, true);
      }
      if (is(key, "labels")) {
        return read_texts(value, pod_.labels, labels_, false);
      }
      return details_ ? details_->metadata(key, value) : SUCCESS;
    });
  }

  // Reuses the entries of the previous pod, because consecutive pods mostly have the same keys.
  // finish() removes those that this pod does not have.
  using Seen = boost::container::small_vector<const std::string*, 12>;
  JsonError read_texts(JsonValue map, alloc::Annotations& into, Seen& seen, bool annotations) {
    return each_entry(map, [&](std::string_view key, JsonValue value) -> JsonError {
      if (!annotations && label_hashes_ != nullptr) {
        return read_label(key, value);
      }
      if (key != names_.count() && !(annotations && alloc::key::is_pod_annotation(key))) {
        return !details_     ? SUCCESS
               : annotations ? details_->annotation(key, value)
                             : details_->label(key, value);
      }
      auto entry = into.find(key);
      if (entry == into.end()) {
        entry = into.emplace(key, "").first;
      }
      seen.push_back(&entry->first);
      return read_text(value, entry->second);
    });
  }
  // Reads a label and adds its hash. Used if the caller asked for label hashes.
  JsonError read_label(std::string_view key, JsonValue value) {
    const JsonError error = read_text(value, label_value_);
    label_hashes_->push_back(hash_of_label(key, label_value_));
    if (key == names_.count()) {
      labels_.push_back(&pod_.labels.insert_or_assign(std::string(key), label_value_).first->first);
    }
    return error;
  }
  static void drop_unseen(alloc::Annotations& map, const Seen& seen) {
    std::erase_if(map,
                  [&](const auto& entry) { return std::ranges::find(seen, &entry.first) == seen.end(); });
  }

  JsonError read_spec(JsonValue spec) {
    return each_field(spec, [&](JsonKey key, JsonValue value) {
      if (is(key, "containers")) {
        return each_element(value, [&](JsonValue element) {
          if (containers_ == pod_.containers.size()) {
            pod_.containers.emplace_back();
          }
          return read_container(element, pod_.containers[containers_++], ContainerKind::kMain);
        });
      }
      if (is(key, "initContainers")) {
        return each_element(value, [&](JsonValue element) {
          return read_container(element, init_.emplace_back(), ContainerKind::kInit);
        });
      }
      if (is(key, "nodeName")) {
        return read_text(value, pod_.node_name);
      }
      if (is(key, "priority")) {
        return is_null(value) ? SUCCESS : value.get_int64().get(pod_.priority);
      }
      if (is(key, "overhead")) {
        return each_entry(value, [&](std::string_view name, JsonValue amount) {
          return read_cpu_or_memory(name, amount, pod_.overhead_cpu_milli, pod_.overhead_memory_bytes);
        });
      }
      return details_ ? details_->spec(key, value) : SUCCESS;
    });
  }

  // `container` may be left over from the previous pod; its memory is reused.
  JsonError read_container(JsonValue element, ContainerSpec& container, ContainerKind kind) {
    container.name.clear();
    container.kind = kind;
    container.state = ContainerState::kNotStarted;
    container.ran_before = false;
    container.id.clear();
    container.gpu_limits.clear();
    container.other_limits.clear();
    container.cpu_milli = 0;
    container.memory_bytes = 0;
    return each_field(element, [&](JsonKey key, JsonValue value) -> JsonError {
      if (is(key, "name")) {
        return read_text(value, container.name);
      }
      if (is(key, "resources")) {
        return read_resources(value, container);
      }
      if (is(key, "restartPolicy") && kind == ContainerKind::kInit) {
        std::string_view policy;
        const JsonError error = read_view(value, policy);
        if (policy == "Always") {
          container.kind = ContainerKind::kSidecar;
        }
        return error;
      }
      return SUCCESS;
    });
  }

  JsonError read_resources(JsonValue resources, ContainerSpec& container) {
    return each_field(resources, [&](JsonKey key, JsonValue value) {
      if (is(key, "limits")) {
        return each_entry(value, [&](std::string_view name, JsonValue amount) {
          const auto resource = names_.find(name);
          if (!resource && details_) {
            details_->other_limit(name, amount);
          }
          if (!resource && !wants(name)) {
            return SUCCESS;
          }
          Quantity quantity;
          const JsonError error = amounts_.read(name, amount, quantity);
          if (resource) {
            container.gpu_limits.emplace_back(*resource, quantity);
          } else {
            container.other_limits.emplace_back(name, quantity);
          }
          return error;
        });
      }
      if (is(key, "requests")) {
        return each_entry(value, [&](std::string_view name, JsonValue amount) {
          return read_cpu_or_memory(name, amount, container.cpu_milli, container.memory_bytes);
        });
      }
      return SUCCESS;
    });
  }

  [[nodiscard]] bool wants(std::string_view resource) const {
    return resources_ != nullptr && std::ranges::any_of(*resources_, [&](std::string_view wanted) {
             return wanted.ends_with('*') ? resource.starts_with(wanted.substr(0, wanted.size() - 1))
                                          : resource == wanted;
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
      if (is(key, "phase")) {
        std::string_view phase;
        const JsonError error = read_view(value, phase);
        pod_.phase = phase_of(phase);
        return error;
      }
      if (is(key, "reason")) {
        std::string_view reason;
        const JsonError error = read_view(value, reason);
        pod_.rejected = reason == "UnexpectedAdmissionError";
        if (details_) {
          details_->keep_reason(reason);
        }
        return error;
      }
      if (is(key, "containerStatuses") || is(key, "initContainerStatuses")) {
        return read_states(value);
      }
      return details_ ? details_->status(key, value) : SUCCESS;
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
      ContainerStatus status;
      const JsonError error = read_container_status(element, container_ids_, details_.has_value(), status);
      if (details_) {
        details_->keep_waiting(status.name, std::move(status.waiting));
      }
      // The API server writes spec before status. If the order is different, finish() sets the
      // status.
      if (!set_status(status)) {
        early_statuses_.push_back(std::move(status));
      }
      return error;
    });
  }

  bool set_status(const ContainerStatus& status) {
    const auto named = [&](const ContainerSpec& container) { return container.name == status.name; };
    const auto end = pod_.containers.begin() + static_cast<std::ptrdiff_t>(containers_);
    if (const auto main = std::find_if(pod_.containers.begin(), end, named); main != end) {
      take(*main, status);
      return true;
    }
    const auto init = std::ranges::find_if(init_, named);
    if (init != init_.end()) {
      take(*init, status);
    }
    return init != init_.end();
  }

  static void take(ContainerSpec& container, const ContainerStatus& status) {
    container.state = status.state;
    container.ran_before = status.ran_before;
    container.id = status.id;
  }

  const alloc::ResourceNames& names_;
  ObjectMeta& meta_;
  PodSpec& pod_;
  const bool container_ids_;
  const std::vector<std::string>* const resources_;
  LabelHashes* const label_hashes_;
  std::optional<PodDetailsReader> details_;  // set if the caller wants details
  QuantityFields amounts_;
  std::size_t containers_ = 0;  // how many of pod_.containers belong to this pod
  std::vector<ContainerSpec> init_;
  std::vector<ContainerStatus> early_statuses_;
  Seen annotations_;
  Seen labels_;
  std::string label_value_;
};

// Clears everything that the reader does not reuse.
void clear(PodSpec& pod) {
  pod.node_name.clear();
  pod.phase = PodPhase::kPending;
  pod.rejected = false;
  pod.deleting = false;
  pod.priority = 0;
  pod.overhead_cpu_milli = 0;
  pod.overhead_memory_bytes = 0;
}

}  // namespace

Status decode_pod(ObjectJson& object, const alloc::ResourceNames& names, ObjectMeta& meta, PodSpec& pod,
                  const PodExtras& extras) {
  clear(pod);
  PodReader reader(names, meta, pod, extras);
  const JsonError error = reader.read(object.object());
  pod.namespace_name = meta.namespace_name;
  pod.name = meta.name;
  pod.uid = meta.uid;
  reader.finish();
  TRY(object.judge(error));
  return reader.amounts();
}

}  // namespace tessera::objects
