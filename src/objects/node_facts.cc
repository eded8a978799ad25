#include "objects/node_facts.h"

#include "objects/object_fields.h"
#include "objects/pod_details_reader.h"
#include "objects/quantity_field.h"

namespace tessera::objects {

namespace {

using simdjson::SUCCESS;

constexpr std::string_view kNvidiaGpu = "nvidia.com/gpu";
constexpr std::string_view kInstanceType = "node.kubernetes.io/instance-type";
constexpr std::string_view kNodeType = "NODE_TYPE";

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
          if (name == alloc::key::kGpuTopology) {
            return read_text(text, node_.gpu_topology);
          }
          return name == kNodeType ? read_text(text, node_.node_type) : SUCCESS;
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

  JsonError read_capacity(std::string_view name, JsonValue amount) {
    if (!names_.find(name) && looks_like_gpu(name)) {
      std::int64_t count = 0;
      const JsonError error = amounts_.read_whole(name, amount, count);
      if (count > 0) {
        node_.other_gpu_resources.emplace_back(name);
      }
      node_.spec.nvidia_gpus = name == kNvidiaGpu ? count : node_.spec.nvidia_gpus;
      return error;
    }
    if (name == names_.memory()) {
      return amounts_.read_whole(name, amount, node_.spec.gpu_memory_units);
    }
    if (name == names_.whole()) {
      return amounts_.read_whole(name, amount, node_.whole_gpus);
    }
    return name == names_.count() ? amounts_.read_whole(name, amount, node_.spec.gpu_count) : SUCCESS;
  }

  JsonError read_allocatable(std::string_view name, JsonValue amount) {
    if (name == names_.memory()) {
      return amounts_.read_whole(name, amount, node_.allocatable_units);
    }
    if (name == names_.count()) {
      return amounts_.read_whole(name, amount, node_.allocatable_count);
    }
    if (name == "cpu") {
      return amounts_.read_milli(name, amount, node_.spec.cpu_milli);
    }
    return name == "memory" ? amounts_.read_whole(name, amount, node_.spec.memory_bytes) : SUCCESS;
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
    const JsonError error = each_field(element, [&](JsonKey key, JsonValue value) {
      if (is(key, "type")) {
        return read_text(value, type);
      }
      return is(key, "status") ? read_text(value, status) : SUCCESS;
    });
    node_.ready = type == "Ready" ? status == "True" : node_.ready;
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
  TRY(object.judge(error));
  return reader.amounts();
}

}  // namespace tessera::objects
