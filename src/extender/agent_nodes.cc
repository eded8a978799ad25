#include "extender/agent_nodes.h"

#include <string_view>

#include "alloc/names.h"
#include "base/log.h"
#include "kube/object_json.h"
#include "kube/request.h"

namespace tessera::extender {

namespace {

constexpr std::string_view kLabel = "gpushare";

}  // namespace

AgentNodes::AgentNodes(const Context& context)
    : count_(context.state.names().count()),
      reflector_(context.client,
                 {.path = kube::node_path(""), .label_selector = std::string(kLabel) + "=true"}, *this) {}

Status AgentNodes::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  decoded_ = {};
  std::string text;
  const auto read_metadata = [&](kube::JsonKey key, kube::JsonValue value) -> simdjson::error_code {
    if (kube::is(key, "labels")) {
      return kube::each_entry(value, [&](std::string_view name, kube::JsonValue label) {
        if (name != kLabel) {
          return simdjson::SUCCESS;
        }
        const simdjson::error_code error = kube::read_text(label, text);
        decoded_.labelled = text == "true";
        return error;
      });
    }
    if (kube::is(key, "annotations")) {
      return kube::each_entry(value, [&](std::string_view name, kube::JsonValue) {
        decoded_.has_inventory = decoded_.has_inventory || name == alloc::key::kInventory;
        return simdjson::SUCCESS;
      });
    }
    return simdjson::SUCCESS;
  };
  const auto read_status = [&](kube::JsonKey key, kube::JsonValue value) -> simdjson::error_code {
    if (!kube::is(key, "capacity")) {
      return simdjson::SUCCESS;
    }
    return kube::each_entry(value, [&](std::string_view name, kube::JsonValue amount) {
      if (name != count_) {
        return simdjson::SUCCESS;
      }
      const simdjson::error_code error = kube::read_text(amount, text);
      decoded_.has_capacity = text != "0";
      return error;
    });
  };
  return object.judge(kube::each_field(object.object(), [&](kube::JsonKey key, kube::JsonValue value) {
    if (kube::is(key, "metadata")) {
      return kube::each_meta_field(value, meta, read_metadata);
    }
    return kube::is(key, "status") ? kube::each_field(value, read_status) : simdjson::SUCCESS;
  }));
}

void AgentNodes::keep(const kube::ObjectMeta& meta) {
  const bool original = decoded_.has_capacity && !decoded_.has_inventory;
  if (decoded_.labelled && !original) {
    names_.insert(meta.name);
  } else {
    names_.erase(meta.name);
  }
}

void AgentNodes::forget(const kube::ObjectMeta& meta) {
  names_.erase(meta.name);
}

// Keeps the last state that could be decoded.
void AgentNodes::unreadable(const kube::ObjectMeta& meta, const Error& error) {
  log::warn("cannot decode a node", {{"name", meta.name}, {"error", error}});
}

}  // namespace tessera::extender
