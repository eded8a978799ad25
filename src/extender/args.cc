#include "extender/args.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "kube/object_json.h"
#include "kube/pod_decoder.h"

namespace tessera::extender {

namespace {

using kube::each_element;
using kube::each_entry;
using kube::each_field;
using kube::JsonError;
using kube::JsonKey;
using kube::JsonObject;
using kube::JsonValue;
using kube::ObjectJson;

constexpr JsonError kRead = simdjson::SUCCESS;

// Go's decoder takes keys in any case, and so does every client that was written against one.
bool is_key(std::string_view key, std::string_view lower) {
  return std::ranges::equal(key, lower, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

// A string of the body with its quotes, without what may stand between it and the next comma.
std::string_view token_of(JsonValue value) {
  return trim(value.raw_json_token());
}

Error json_error(JsonError error) {
  return {ErrorCode::kInvalid,
          fmt::format("the body is not what kube-scheduler sends: {}", simdjson::error_message(error))};
}

Status read_pod(ObjectJson& json, const alloc::ResourceNames& names, alloc::PodSpec& pod) {
  kube::ObjectMeta meta;
  return kube::decode_pod(json, names, meta, pod);
}

Status read_pod_value(JsonValue value, const alloc::ResourceNames& names, alloc::PodSpec& pod) {
  JsonObject object;
  if (const JsonError error = value.get_object().get(object); error != kRead) {
    return fail(json_error(error).context("Pod"));
  }
  ObjectJson json(object);
  return with_context(read_pod(json, names, pod), "Pod");
}

}  // namespace

struct ArgsReader::Parser {
  simdjson::ondemand::parser simd;
  simdjson::ondemand::document document;

  // Calls `visit(key, value)` for every field of the body; keys are unescaped, in any case.
  template <class Visit>
  Status each_of_body(json::PaddedView body, Visit visit) {
    const simdjson::padded_string_view text(body.data(), body.size(), body.size() + json::kPadding);
    if (const JsonError error = simd.iterate(text).get(document); error != kRead) {
      return fail(json_error(error));
    }
    JsonObject root;
    if (const JsonError error = document.get_object().get(root); error != kRead) {
      return fail(json_error(error));
    }
    for (auto entry : root) {
      simdjson::ondemand::field field;
      std::string_view key;
      if (const JsonError error = std::move(entry).get(field); error != kRead) {
        return fail(json_error(error));
      }
      if (const JsonError error = field.unescaped_key().get(key); error != kRead) {
        return fail(json_error(error));
      }
      TRY(visit(key, field.value()));
    }
    if (!kube::at_end(document)) {
      return fail(ErrorCode::kInvalid, "the body goes on after its end");
    }
    return {};
  }
};

ArgsReader::ArgsReader(const alloc::ResourceNames& names)
    : parser_(std::make_unique<Parser>()), names_(names) {}
ArgsReader::~ArgsReader() = default;

namespace {

Status of(JsonError error) {
  return error == kRead ? Status{} : fail(json_error(error));
}

JsonError read_names(JsonValue value, NodeArgs& args) {
  return each_element(value, [&](JsonValue one) {
    const std::string_view token = token_of(one);
    if (token.size() < 2 || token.front() != '"') {
      return simdjson::INCORRECT_TYPE;
    }
    args.raw.push_back(token);
    if (token.find('\\') == std::string_view::npos) {
      args.names.push_back(token.substr(1, token.size() - 2));
      return kRead;
    }
    return one.get_string().get(args.names.emplace_back());
  });
}

// {"metadata":{},"items":[Node, ...]}; of each the name and its text.
JsonError read_nodes(JsonValue value, NodeArgs& args) {
  return each_field(value, [&](JsonKey key, JsonValue items) {
    if (key != "items" && key != "Items") {
      return kRead;
    }
    return each_element(items, [&](JsonValue item) -> JsonError {
      JsonObject object;
      std::string_view raw;
      bool more = false;
      if (const JsonError error = item.get_object().get(object); error != kRead) {
        return error;
      }
      if (const JsonError error = object.raw_json().get(raw); error != kRead) {
        return error;
      }
      if (const JsonError error = object.reset().get(more); error != kRead) {
        return error;
      }
      std::string_view name;
      const JsonError error = each_field(object, [&](JsonKey part, JsonValue metadata) {
        return part != "metadata" ? kRead : each_field(metadata, [&](JsonKey field, JsonValue text) {
          return field == "name" ? text.get_string().get(name) : kRead;
        });
      });
      if (error != kRead) {
        return error;
      }
      args.names.push_back(name);
      args.raw.push_back(trim(raw));
      return kRead;
    });
  });
}

bool is_null(JsonValue value) {
  return value.is_null();
}

}  // namespace

Result<const NodeArgs*> ArgsReader::node_args(json::PaddedView body) {
  NodeArgs& args = node_args_;
  args.names.clear();
  args.raw.clear();
  args.names_only = true;
  bool has_pod = false;
  bool has_nodes = false;
  TRY(parser_->each_of_body(body, [&](std::string_view key, JsonValue value) -> Status {
    if (is_key(key, "pod")) {
      has_pod = true;
      return read_pod_value(value, names_, args.pod);
    }
    const bool by_name = is_key(key, "nodenames");
    if ((!by_name && !is_key(key, "nodes")) || is_null(value)) {
      return {};
    }
    has_nodes = true;
    args.names_only = by_name;
    args.names.clear();
    args.raw.clear();
    return of(by_name ? read_names(value, args) : read_nodes(value, args));
  }));
  if (!has_pod || !has_nodes) {
    return fail(ErrorCode::kInvalid,
                fmt::format("the body has no {}", has_pod ? "NodeNames or Nodes" : "Pod"));
  }
  return &args;
}

Result<BindArgs> ArgsReader::bind_args(json::PaddedView body) {
  BindArgs args;
  TRY(parser_->each_of_body(body, [&](std::string_view key, JsonValue value) -> Status {
    std::string* into = is_key(key, "podname")        ? &args.pod
                        : is_key(key, "podnamespace") ? &args.pod_namespace
                        : is_key(key, "poduid")       ? &args.uid
                        : is_key(key, "node")         ? &args.node
                                                      : nullptr;
    return into == nullptr ? Status{} : of(kube::read_text(value, *into));
  }));
  for (const auto& [name, text] :
       {std::pair{"PodName", &args.pod}, std::pair{"PodNamespace", &args.pod_namespace},
        std::pair{"PodUID", &args.uid}, std::pair{"Node", &args.node}}) {
    if (text->empty()) {
      return fail(ErrorCode::kInvalid, fmt::format("the body has no {}", name));
    }
  }
  return args;
}

namespace {

// {"Pods":[...],"NumPDBViolations":0}; a pod is {"UID":"..."} or a whole one.
JsonError read_victims(JsonValue value, const alloc::ResourceNames& names, NodeVictims& into,
                       std::optional<Error>& wrong) {
  return each_entry(value, [&](std::string_view key, JsonValue part) {
    if (is_key(key, "numpdbviolations")) {
      return part.get_int64().get(into.pdb_violations);
    }
    if (!is_key(key, "pods")) {
      return kRead;
    }
    return each_element(part, [&](JsonValue pod) -> JsonError {
      JsonObject object;
      bool more = false;
      Victim victim;
      if (const JsonError error = pod.get_object().get(object); error != kRead) {
        return error;
      }
      for (auto entry : object) {
        simdjson::ondemand::field field;
        std::string_view name;
        if (const JsonError error = std::move(entry).get(field); error != kRead) {
          return error;
        }
        if (const JsonError error = field.unescaped_key().get(name); error != kRead) {
          return error;
        }
        if (is_key(name, "uid")) {
          const JsonError error = kube::read_text(field.value(), victim.uid);
          into.pods.push_back(std::move(victim));
          return error;
        }
        break;
      }
      if (const JsonError error = object.reset().get(more); error != kRead) {
        return error;
      }
      alloc::PodSpec whole;
      ObjectJson json(object);
      if (Status status = read_pod(json, names, whole); !status) {
        wrong = status.error();
        return kube::kStop;
      }
      into.pods.push_back({.uid = whole.uid, .has_priority = true, .priority = whole.priority});
      return kRead;
    });
  });
}

}  // namespace

Result<PreemptArgs> ArgsReader::preempt_args(json::PaddedView body) {
  PreemptArgs args;
  bool has_pod = false;
  TRY(parser_->each_of_body(body, [&](std::string_view key, JsonValue value) -> Status {
    if (is_key(key, "pod")) {
      has_pod = true;
      return read_pod_value(value, names_, args.pod);
    }
    if (!is_key(key, "nodenametometavictims") && !is_key(key, "nodenametovictims")) {
      return {};
    }
    std::optional<Error> wrong;
    const JsonError error = each_entry(value, [&](std::string_view node, JsonValue victims) {
      NodeVictims& made = args.nodes.emplace_back();
      made.node = node;
      return read_victims(victims, names_, made, wrong);
    });
    return wrong ? Status(fail(std::move(*wrong))) : of(error);
  }));
  if (!has_pod) {
    return fail(ErrorCode::kInvalid, "the body has no Pod");
  }
  return args;
}

Status ArgsReader::pod(json::PaddedView body, alloc::PodSpec& into) {
  const simdjson::padded_string_view text(body.data(), body.size(), body.size() + json::kPadding);
  if (const JsonError error = parser_->simd.iterate(text).get(parser_->document); error != kRead) {
    return fail(json_error(error));
  }
  JsonObject root;
  if (const JsonError error = parser_->document.get_object().get(root); error != kRead) {
    return fail(json_error(error));
  }
  ObjectJson json(root);
  return read_pod(json, names_, into);
}

}  // namespace tessera::extender
