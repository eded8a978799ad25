#include "objects/node_decoder.h"

#include <algorithm>

#include "objects/object_fields.h"
#include "objects/original_annotations.h"
#include "objects/quantity_field.h"

namespace tessera::objects {

namespace {

using simdjson::SUCCESS;

constexpr std::string_view kNvidiaGpu = "nvidia.com/gpu";
constexpr std::size_t kMaxDraining = 128;
constexpr std::string_view kInstanceType = "node.kubernetes.io/instance-type";

class NodeReader {
 public:
  NodeReader(const alloc::ResourceNames& names, ObjectMeta& meta, alloc::NodeSpec& node)
      : names_(names), meta_(meta), node_(node) {}

  JsonError read(JsonObject& object) {
    return each_field(object, [&](JsonKey key, JsonValue value) {
      if (is(key, "metadata")) {
        return read_metadata(value);
      }
      return is(key, "status") ? read_status(value) : SUCCESS;
    });
  }

  [[nodiscard]] const Status& amounts() const { return amounts_.status(); }

 private:
  JsonError read_metadata(JsonValue metadata) {
    return each_meta_field(metadata, meta_, [&](JsonKey key, JsonValue value) -> JsonError {
      if (is(key, "annotations")) {
        return each_entry(value, [&](std::string_view name, JsonValue text) {
          return name == alloc::key::kInventory      ? read_text(text, node_.inventory)
                 : name == alloc::key::kDraining     ? read_text(text, node_.draining)
                 : name == alloc::key::kDrainingSeen ? read_text(text, node_.draining_seen)
                                                     : read_original(name, text, node_.original);
        });
      }
      if (is(key, "labels")) {
        return each_entry(value, [&](std::string_view name, JsonValue text) {
          return name == kInstanceType ? read_text(text, node_.machine) : SUCCESS;
        });
      }
      return SUCCESS;
    });
  }

  JsonError read_status(JsonValue status) {
    return each_field(status, [&](JsonKey key, JsonValue value) {
      if (is(key, "capacity")) {
        return each_entry(value, [&](std::string_view name, JsonValue amount) {
          if (name == names_.memory()) {
            return amounts_.read_whole(name, amount, node_.gpu_memory_units);
          }
          if (name == kNvidiaGpu && names_.whole() != kNvidiaGpu) {
            return amounts_.read_whole(name, amount, node_.nvidia_gpus);
          }
          if (name == names_.whole()) {
            return amounts_.read_whole(name, amount, node_.whole_gpus);
          }
          return name == names_.count() ? amounts_.read_whole(name, amount, node_.gpu_count) : SUCCESS;
        });
      }
      if (is(key, "allocatable")) {
        return each_entry(value, [&](std::string_view name, JsonValue amount) {
          if (name == "cpu") {
            return amounts_.read_milli(name, amount, node_.cpu_milli);
          }
          return name == "memory" ? amounts_.read_whole(name, amount, node_.memory_bytes) : SUCCESS;
        });
      }
      return SUCCESS;
    });
  }

  const alloc::ResourceNames& names_;
  ObjectMeta& meta_;
  alloc::NodeSpec& node_;
  QuantityFields amounts_;
};

}  // namespace

Status decode_node(ObjectJson& object, const alloc::ResourceNames& names, ObjectMeta& meta,
                   alloc::NodeSpec& node) {
  node.inventory.clear();
  node.machine.clear();
  node.draining.clear();
  node.draining_seen.clear();
  node.original.gpu_topology.clear();
  node.original.gsoc_links.clear();
  node.original.type.clear();
  node.gpu_memory_units = 0;
  node.gpu_count = 0;
  node.whole_gpus = 0;
  node.nvidia_gpus = 0;
  node.cpu_milli = 0;
  node.memory_bytes = 0;
  NodeReader reader(names, meta, node);
  const JsonError error = reader.read(object.object());
  node.name = meta.name;
  // The agent writes a short text. A longer one is not its own, and is not kept.
  node.draining.resize(std::min(node.draining.size(), kMaxDraining));
  node.draining_seen.resize(std::min(node.draining_seen.size(), kMaxDraining));
  forget_unused_original(node);
  TRY(object.judge(error));
  return reader.amounts();
}

}  // namespace tessera::objects
