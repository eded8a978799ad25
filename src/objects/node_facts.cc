#include "objects/node_facts.h"

#include "objects/object_fields.h"
#include "objects/original_annotations.h"
#include "objects/pod_details_reader.h"
#include "objects/quantity_field.h"

namespace tessera::objects {

namespace {

using simdjson::SUCCESS;

constexpr std::string_view kNvidiaGpu = "nvidia.com/gpu";
constexpr std::string_view kInstanceType = "node.kubernetes.io/instance-type";

class NodeFactsReader {
 public:
  NodeFactsReader(const alloc::ResourceNames& names, ObjectMeta& meta, NodeFacts& node)
      : names_(names), meta_(meta), node_(node) {}

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

  [[nodiscard]] const Status& amounts() const { return amounts_.status(); }

 private:
  JsonError read_metadata(JsonValue metadata) {
    return each_field(metadata, [&](JsonKey key, JsonValue value) -> JsonError {
      bool taken = false;
      if (const JsonError error = read_meta_field(key, value, meta_, taken); taken || error != SUCCESS) {
        return error;
      }
      if (is(key, "annotations")) {
        return each_entry(value, [&](std::string_view name, JsonValue text) {
          if (name == alloc::key::kInventory) {
            return read_text(text, node_.spec.inventory);
          }
          if (name == alloc::key::kDraining) {
            return read_text(text, node_.spec.draining);
          }
          if (name == alloc::key::kDrainingSeen) {
            return read_text(text, node_.spec.draining_seen);
          }
          return read_original(name, text, node_.spec.original);
        });
      }
      if (is(key, "labels")) {
        return each_entry(value, [&](std::string_view name, JsonValue text) {
          return read_text(text, node_.labels[std::string(name)]);
        });
      }
      return SUCCESS;
    });
  }

  JsonError read_spec(JsonValue spec) {
    return each_field(spec, [&](JsonKey key, JsonValue value) -> JsonError {
      if (is(key, "taints")) {
        return each_element(value, [&](JsonValue element) {
          return objects::read_taint(element, node_.taints.emplace_back());
        });
      }
      return is(key, "unschedulable") ? value.get_bool().get(node_.cordoned) : SUCCESS;
    });
  }

  JsonError read_status(JsonValue status) {
    return each_field(status, [&](JsonKey key, JsonValue value) -> JsonError {
      if (is(key, "capacity")) {
        return each_entry(
            value, [&](std::string_view name, JsonValue amount) { return read_capacity(name, amount); });
      }
      if (is(key, "allocatable")) {
        return each_entry(
            value, [&](std::string_view name, JsonValue amount) { return read_allocatable(name, amount); });
      }
      if (is(key, "addresses")) {
        return each_element(value, [&](JsonValue element) { return read_address(element); });
      }
      return is(key, "conditions")
                 ? each_element(value, [&](JsonValue element) { return read_condition(element); })
                 : SUCCESS;
    });
  }

  // Only extended resources have a domain in their name, and only those are read.
  static bool is_extended(std::string_view name) { return name.find('/') != std::string_view::npos; }

  JsonError read_capacity(std::string_view name, JsonValue amount) {
    if (!is_extended(name)) {
      return SUCCESS;
    }
    std::int64_t& capacity = node_.extended[std::string(name)].capacity;
    const JsonError error = amounts_.read_whole(name, amount, capacity);
    if (capacity > 0 && !names_.find(name) && looks_like_gpu(name)) {
      node_.other_gpu_resources.emplace_back(name);
    }
    if (name == names_.memory()) {
      node_.spec.gpu_memory_units = capacity;
    } else if (name == names_.whole()) {
      node_.spec.whole_gpus = capacity;
    } else if (name == kNvidiaGpu) {
      node_.spec.nvidia_gpus = capacity;
    } else if (name == names_.count()) {
      node_.spec.gpu_count = capacity;
    }
    return error;
  }

  JsonError read_allocatable(std::string_view name, JsonValue amount) {
    if (name == "cpu") {
      return amounts_.read_milli(name, amount, node_.spec.cpu_milli);
    }
    if (name == "memory") {
      return amounts_.read_whole(name, amount, node_.spec.memory_bytes);
    }
    if (!is_extended(name)) {
      return SUCCESS;
    }
    std::int64_t& allocatable = node_.extended[std::string(name)].allocatable;
    const JsonError error = amounts_.read_whole(name, amount, allocatable);
    if (name == names_.memory()) {
      node_.allocatable_units = allocatable;
    } else if (name == names_.whole()) {
      node_.allocatable_whole = allocatable;
    } else if (name == names_.count()) {
      node_.allocatable_count = allocatable;
    }
    return error;
  }

  JsonError read_address(JsonValue element) {
    std::string type;
    std::string address;
    const JsonError error = each_field(element, [&](JsonKey key, JsonValue value) {
      if (is(key, "type")) {
        return read_text(value, type);
      }
      return is(key, "address") ? read_text(value, address) : SUCCESS;
    });
    if (type == "InternalIP" && node_.address.empty()) {
      node_.address = std::move(address);
    }
    return error;
  }

  JsonError read_condition(JsonValue element) {
    std::string type;
    std::string status;
    std::string reason;
    std::string message;
    const JsonError error = each_field(element, [&](JsonKey key, JsonValue value) {
      if (is(key, "type")) {
        return read_text(value, type);
      }
      if (is(key, "status")) {
        return read_text(value, status);
      }
      if (is(key, "reason")) {
        return read_text(value, reason);
      }
      return is(key, "message") ? read_text(value, message) : SUCCESS;
    });
    if (type == kGpusHealthy) {
      node_.gpus_healthy = std::move(status);
      node_.gpus_reason = std::move(reason);
      node_.gpus_message = std::move(message);
    } else if (type == "Ready") {
      node_.ready = status == "True";
    }
    return error;
  }

  const alloc::ResourceNames& names_;
  ObjectMeta& meta_;
  NodeFacts& node_;
  objects::QuantityFields amounts_;
};

}  // namespace

Status decode_node_facts(ObjectJson& object, const alloc::ResourceNames& names, ObjectMeta& meta,
                         NodeFacts& node) {
  node = NodeFacts{};
  NodeFactsReader reader(names, meta, node);
  const JsonError error = reader.read(object.object());
  node.spec.name = meta.name;
  if (const auto type = node.labels.find(kInstanceType); type != node.labels.end()) {
    node.spec.machine = type->second;
  }
  forget_unused_original(node.spec);
  TRY(object.judge(error));
  return reader.amounts();
}

}  // namespace tessera::objects
