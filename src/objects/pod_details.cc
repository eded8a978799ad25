#include "objects/pod_details.h"

#include <algorithm>

#include "base/strings.h"
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

// Returns whether a value meets the requirement. `value` is null if the label or field is missing.
bool meets(const NodeRequirement& one, const std::string* value) {
  if (one.operation == "Exists" || one.operation == "DoesNotExist") {
    return (value != nullptr) == (one.operation == "Exists");
  }
  if (one.operation == "In" || one.operation == "NotIn") {
    const bool among = value != nullptr && std::ranges::find(one.values, *value) != one.values.end();
    return among == (one.operation == "In");
  }
  if (value == nullptr || one.values.size() != 1 || (one.operation != "Gt" && one.operation != "Lt")) {
    return false;
  }
  const auto have = parse_int(*value);
  const auto bound = parse_int(one.values.front());
  return have && bound && (one.operation == "Gt" ? *have > *bound : *have < *bound);
}

JsonError read_requirements(JsonValue list, bool fields, NodeTerm& term) {
  return each_element(list, [&](JsonValue element) {
    NodeRequirement& one = term.emplace_back();
    one.is_field = fields;
    return each_field(element, [&](JsonKey key, JsonValue value) -> JsonError {
      if (is(key, "key")) {
        return read_text(value, one.key);
      }
      if (is(key, "operator")) {
        return read_text(value, one.operation);
      }
      return is(key, "values")
                 ? each_element(value,
                                [&](JsonValue text) { return read_text(text, one.values.emplace_back()); })
                 : SUCCESS;
    });
  });
}

constexpr char kRequired[] = "requiredDuringSchedulingIgnoredDuringExecution";  // NOLINT

JsonError read_node_affinity(JsonValue affinity, std::vector<NodeTerm>& terms) {
  return each_field(affinity, [&](JsonKey key, JsonValue required) -> JsonError {
    if (!is(key, kRequired)) {
      return SUCCESS;
    }
    return each_field(required, [&](JsonKey which, JsonValue list) -> JsonError {
      if (!is(which, "nodeSelectorTerms")) {
        return SUCCESS;
      }
      return each_element(list, [&](JsonValue element) {
        NodeTerm& term = terms.emplace_back();
        return each_field(element, [&](JsonKey part, JsonValue requirements) -> JsonError {
          const bool fields = is(part, "matchFields");
          return fields || is(part, "matchExpressions") ? read_requirements(requirements, fields, term)
                                                        : SUCCESS;
        });
      });
    });
  });
}

// Sets `depends` if a pod affinity or anti-affinity has a required term.
JsonError read_pod_affinity(JsonValue affinity, bool& depends) {
  return each_field(affinity, [&](JsonKey key, JsonValue terms) -> JsonError {
    return is(key, kRequired) ? each_element(terms,
                                             [&](JsonValue) {
                                               depends = true;
                                               return SUCCESS;
                                             })
                              : SUCCESS;
  });
}

JsonError read_affinity(JsonValue affinity, PodDetails& pod) {
  return each_field(affinity, [&](JsonKey key, JsonValue value) -> JsonError {
    if (is(key, "nodeAffinity")) {
      return read_node_affinity(value, pod.node_terms);
    }
    return is(key, "podAffinity") || is(key, "podAntiAffinity")
               ? read_pod_affinity(value, pod.depends_on_pods)
               : SUCCESS;
  });
}

JsonError read_spread(JsonValue constraints, bool& depends) {
  return each_element(constraints, [&](JsonValue element) {
    return each_field(element, [&](JsonKey key, JsonValue value) -> JsonError {
      std::string_view word;
      const JsonError error = is(key, "whenUnsatisfiable") ? read_view(value, word) : SUCCESS;
      depends = depends || word == "DoNotSchedule";
      return error;
    });
  });
}

// Returns whether the text of a JSON value is 0 or "0". It may be followed by spaces.
bool is_zero(std::string_view token) {
  token = token.substr(0, token.find_last_not_of(" \n\r\t") + 1);
  return token == "0" || token == "\"0\"";
}

}  // namespace

bool meets_terms(const std::vector<NodeTerm>& terms, std::string_view node_name,
                 const std::map<std::string, std::string, std::less<>>& labels) {
  const std::string name(node_name);
  const auto meets_one = [&](const NodeRequirement& one) {
    if (one.is_field) {
      return meets(one, one.key == "metadata.name" ? &name : nullptr);
    }
    const auto label = labels.find(one.key);
    return meets(one, label == labels.end() ? nullptr : &label->second);
  };
  return terms.empty() || std::ranges::any_of(terms, [&](const NodeTerm& term) {
           return !term.empty() && std::ranges::all_of(term, meets_one);
         });
}

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

void PodDetailsReader::other_limit(std::string_view resource, JsonValue& amount) {
  std::vector<std::string>& kept = details_.other_gpu_limits;
  if (looks_like_gpu(resource) && !is_zero(amount.raw_json_token()) &&
      kept.size() < PodDetails::kMostOtherLimits && std::ranges::find(kept, resource) == kept.end()) {
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
  if (is(key, "ownerReferences")) {
    return each_element(value, [&](JsonValue element) { return owner(element); });
  }
  if (is(key, "managedFields")) {
    return each_element(value, [&](JsonValue element) { return managed_fields(element); });
  }
  return is(key, "creationTimestamp") ? read_text(value, details_.created) : SUCCESS;
}

JsonError PodDetailsReader::owner(JsonValue reference) {
  std::string kind;
  std::string name;
  bool controller = false;
  const JsonError error = each_field(reference, [&](JsonKey key, JsonValue value) -> JsonError {
    if (is(key, "kind")) {
      return read_text(value, kind);
    }
    if (is(key, "name")) {
      return read_text(value, name);
    }
    return is(key, "controller") && !is_null(value) ? value.get_bool().get(controller) : SUCCESS;
  });
  if (controller) {
    details_.owner_kind = std::move(kind);
    details_.owner_name = std::move(name);
  }
  return error;
}

// Reads one entry of managedFields: whether its writer set {"fieldsV1":{"f:spec":{"f:nodeName":{}}}}.
JsonError PodDetailsReader::managed_fields(JsonValue entry) {
  bool named = false;
  const JsonError error = each_field(entry, [&](JsonKey key, JsonValue value) -> JsonError {
    if (!is(key, "fieldsV1")) {
      return SUCCESS;
    }
    named = true;
    return each_field(value, [&](JsonKey part, JsonValue fields) -> JsonError {
      if (!is(part, "f:spec")) {
        return SUCCESS;
      }
      return each_field(fields, [&](JsonKey field, JsonValue /*owned*/) -> JsonError {
        details_.node_set_by = is(field, "f:nodeName") ? NodeSetBy::kClient : details_.node_set_by;
        return SUCCESS;
      });
    });
  });
  if (named && details_.node_set_by == NodeSetBy::kUnknown) {
    details_.node_set_by = NodeSetBy::kBinding;
  }
  return error;
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
  if (is(key, "affinity")) {
    return read_affinity(value, details_);
  }
  return is(key, "topologySpreadConstraints") ? read_spread(value, details_.depends_on_pods) : SUCCESS;
}

JsonError PodDetailsReader::status(JsonKey key, JsonValue value) {
  if (is(key, "message")) {
    return read_text(value, details_.message);
  }
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
