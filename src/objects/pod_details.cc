#include "objects/pod_details.h"

#include <algorithm>

#include "objects/pod_details_reader.h"

namespace tessera::objects {

using simdjson::SUCCESS;

namespace {

JsonError read_map(JsonValue map, std::map<std::string, std::string, std::less<>>& into) {
  return each_entry(
      map, [&](std::string_view key, JsonValue value) { return read_text(value, into[std::string(key)]); });
}

struct Condition {
  std::string type;
  std::string status;
  std::string message;
};

JsonError read_condition(JsonValue element, Condition& condition) {
  return each_field(element, [&](JsonKey key, JsonValue value) -> JsonError {
    if (is(key, "type")) {
      return read_text(value, condition.type);
    }
    if (is(key, "message")) {
      return read_text(value, condition.message);
    }
    return is(key, "status") ? read_text(value, condition.status) : SUCCESS;
  });
}

bool matches(const Taint& toleration, const Taint& taint) {
  const bool effect = toleration.effect.empty() || toleration.effect == taint.effect;
  const bool key = toleration.key == taint.key || (toleration.key.empty() && toleration.exists);
  return effect && key && (toleration.exists || toleration.value == taint.value);
}

}  // namespace

bool tolerates(const std::vector<Taint>& tolerations, const Taint& taint) {
  return taint.effect == "PreferNoSchedule" ||
         std::ranges::any_of(tolerations, [&](const Taint& one) { return matches(one, taint); });
}

JsonError read_taint(JsonValue element, Taint& taint) {
  return each_field(element, [&](JsonKey key, JsonValue value) -> JsonError {
    if (is(key, "key")) {
      return read_text(value, taint.key);
    }
    if (is(key, "value")) {
      return read_text(value, taint.value);
    }
    if (is(key, "effect")) {
      return read_text(value, taint.effect);
    }
    if (is(key, "operator")) {
      std::string word;
      const JsonError error = read_text(value, word);
      taint.exists = word == "Exists";
      return error;
    }
    return SUCCESS;
  });
}

bool looks_like_gpu(std::string_view resource) {
  const std::size_t slash = resource.find('/');
  return slash != std::string_view::npos && resource.substr(slash).find("gpu") != std::string_view::npos;
}

void PodDetailsReader::other_limit(std::string_view resource) {
  std::vector<std::string>& kept = details_.other_gpu_limits;
  if (looks_like_gpu(resource) && kept.size() < PodDetails::kMostOtherLimits &&
      std::ranges::find(kept, resource) == kept.end()) {
    kept.emplace_back(resource);
  }
}

JsonError PodDetailsReader::label(std::string_view key, JsonValue value) {
  return read_text(value, details_.labels[std::string(key)]);
}

JsonError PodDetailsReader::annotation(std::string_view key, JsonValue value) {
  return key.starts_with("tessera.io/") ? read_text(value, details_.annotations[std::string(key)]) : SUCCESS;
}

JsonError PodDetailsReader::metadata(JsonKey key, JsonValue value) {
  return is(key, "creationTimestamp") ? read_text(value, details_.created) : SUCCESS;
}

JsonError PodDetailsReader::spec(JsonKey key, JsonValue value) {
  if (is(key, "schedulerName")) {
    return read_text(value, details_.scheduler_name);
  }
  if (is(key, "nodeSelector")) {
    return read_map(value, details_.node_selector);
  }
  if (is(key, "schedulingGates")) {
    return each_element(value, [&](JsonValue element) {
      return each_field(element, [&](JsonKey which, JsonValue name) -> JsonError {
        return is(which, "name") ? read_text(name, details_.scheduling_gates.emplace_back()) : SUCCESS;
      });
    });
  }
  if (is(key, "tolerations")) {
    return each_element(
        value, [&](JsonValue element) { return read_taint(element, details_.tolerations.emplace_back()); });
  }
  return SUCCESS;
}

JsonError PodDetailsReader::status(JsonKey key, JsonValue value) {
  if (!is(key, "conditions")) {
    return SUCCESS;
  }
  return each_element(value, [&](JsonValue element) {
    Condition condition;
    const JsonError error = read_condition(element, condition);
    if (condition.type == "PodScheduled") {
      details_.scheduling_attempted = true;
      details_.scheduling_message = condition.status == "True" ? "" : std::move(condition.message);
    }
    details_.ready = details_.ready || (condition.type == "Ready" && condition.status == "True");
    return error;
  });
}

JsonError PodDetailsReader::waiting(JsonValue value, std::string& message) {
  return each_field(value, [&](JsonKey key, JsonValue text) -> JsonError {
    return is(key, "message") ? read_text(text, message) : SUCCESS;
  });
}

void PodDetailsReader::keep_waiting(std::string_view container, std::string message) {
  if (!message.empty()) {
    details_.waiting[std::string(container)] = std::move(message);
  }
}

}  // namespace tessera::objects
