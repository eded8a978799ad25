#include "extender/args.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/strings.h"
#include "kube/object_json.h"
#include "kube/request.h"
#include "objects/pod_decoder.h"

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

constexpr JsonError kSuccess = simdjson::SUCCESS;

// The annotations of the pod are counted only if the body has this size. In a smaller body they use
// less than half of the limit, because JSON is never shorter than its content.
constexpr std::size_t kMinBodyToCount = kube::kMaxAnnotationBytes / 2;

// Go's decoder accepts keys in any letter case, and clients rely on that.
bool is_key(std::string_view key, std::string_view lower) {
  return std::ranges::equal(key, lower, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

Error json_error(JsonError error) {
  return {ErrorCode::kInvalid, fmt::format("the body is not a valid request of kube-scheduler: {}",
                                           simdjson::error_message(error))};
}

Status read_pod(ObjectJson& json, const alloc::ResourceNames& names, alloc::PodSpec& pod) {
  kube::ObjectMeta meta;
  return objects::decode_pod(json, names, meta, pod);
}

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Returns the decoded length of the JSON string whose content starts at `at`. simdjson has checked
// that the closing quote exists, but not the escapes.
std::size_t bytes_of_text(const char* at) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
  std::size_t bytes = 0;
  while (*at != '"') {
    if (*at != '\\') {
      ++bytes;
      ++at;
    } else if (at[1] == 'u' && is_hex(at[2]) && is_hex(at[3]) && is_hex(at[4]) && is_hex(at[5])) {
      // A surrogate pair is four bytes in UTF-8, so each half counts as two.
      const int high = digit(at[2]) * 16 + digit(at[3]);
      const bool is_half = high >= 0xd8 && high <= 0xdf;
      bytes += high == 0 && digit(at[4]) < 8 ? 1 : high < 8 || is_half ? 2 : 3;
      at += std::string_view("\\u0000").size();
    } else {
      ++bytes;
      at += 2;
    }
  }
  return bytes;
}

// Adds the size of all annotations to `bytes`, and rewinds `pod` to its start. Does not let
// simdjson decode the strings, because its string buffer has space for each string only once.
JsonError count_annotations(JsonObject& pod, std::size_t& bytes) {
  const JsonError error = each_field(pod, [&](JsonKey part, JsonValue metadata) {
    return part != "metadata" ? kSuccess : each_field(metadata, [&](JsonKey field, JsonValue annotations) {
      JsonObject all;
      // Ignore annotations of the wrong type here; decode_pod() rejects them.
      if (field != "annotations" || annotations.get_object().get(all) != kSuccess) {
        return kSuccess;
      }
      return each_field(all, [&](JsonKey key, JsonValue text) {
        const std::string_view token = text.raw_json_token();
        bytes += bytes_of_text(key.raw()) + (token.starts_with('"') ? bytes_of_text(token.data() + 1) : 0);
        return kSuccess;
      });
    });
  });
  bool more = false;
  return error != kSuccess ? error : pod.reset().get(more);
}

// Decodes a pod. Adds the size of its annotations to `annotation_bytes`, if that is not null.
Status read_pod_value(JsonValue value, const alloc::ResourceNames& names, alloc::PodSpec& pod,
                      std::size_t* annotation_bytes = nullptr) {
  JsonObject object;
  if (const JsonError error = value.get_object().get(object); error != kSuccess) {
    return fail(json_error(error).context("Pod"));
  }
  if (annotation_bytes != nullptr) {
    if (const JsonError error = count_annotations(object, *annotation_bytes); error != kSuccess) {
      return fail(json_error(error).context("Pod"));
    }
  }
  ObjectJson json(object);
  return with_context(read_pod(json, names, pod), "Pod");
}

}  // namespace

struct ArgsReader::Impl {
  simdjson::ondemand::parser simd;
  simdjson::ondemand::document document;

  // Calls `visit(key, value)` for every field of the body. Compare keys with is_key().
  template <class Visit>
  Status each_field_of(json::PaddedView body, Visit visit) {
    const simdjson::padded_string_view text(body.data(), body.size(), body.size() + json::kPadding);
    if (const JsonError error = simd.iterate(text).get(document); error != kSuccess) {
      return fail(json_error(error));
    }
    JsonObject root;
    if (const JsonError error = document.get_object().get(root); error != kSuccess) {
      return fail(json_error(error));
    }
    for (auto entry : root) {
      simdjson::ondemand::field field;
      std::string_view key;
      if (const JsonError error = std::move(entry).get(field); error != kSuccess) {
        return fail(json_error(error));
      }
      if (const JsonError error = field.unescaped_key().get(key); error != kSuccess) {
        return fail(json_error(error));
      }
      TRY(visit(key, field.value()));
    }
    if (!kube::at_end(document)) {
      return fail(ErrorCode::kInvalid, "the body continues after the end of its JSON");
    }
    return {};
  }
};

ArgsReader::ArgsReader(const alloc::ResourceNames& names, const NodeIndex& index)
    : impl_(std::make_unique<Impl>()), names_(names), lists_(index) {}
ArgsReader::~ArgsReader() = default;

namespace {

Status to_status(JsonError error) {
  return error == kSuccess ? Status{} : fail(json_error(error));
}

JsonError read_names(JsonValue value, std::vector<std::string_view>& names) {
  return each_element(value, [&](JsonValue one) { return one.get_string().get(names.emplace_back()); });
}

// Reads {"metadata":{},"items":[Node, ...]}: the name and the JSON of each node.
JsonError read_nodes(JsonValue value, std::vector<std::string_view>& names,
                     std::vector<std::string_view>& objects) {
  return each_entry(value, [&](std::string_view key, JsonValue items) {
    if (!is_key(key, "items")) {
      return kSuccess;
    }
    return each_element(items, [&](JsonValue item) -> JsonError {
      JsonObject object;
      std::string_view raw;
      bool more = false;
      if (const JsonError error = item.get_object().get(object); error != kSuccess) {
        return error;
      }
      if (const JsonError error = object.raw_json().get(raw); error != kSuccess) {
        return error;
      }
      if (const JsonError error = object.reset().get(more); error != kSuccess) {
        return error;
      }
      std::string_view name;
      const JsonError error = each_field(object, [&](JsonKey part, JsonValue metadata) {
        return part != "metadata" ? kSuccess : each_field(metadata, [&](JsonKey field, JsonValue text) {
          return field == "name" ? text.get_string().get(name) : kSuccess;
        });
      });
      if (error != kSuccess || name.empty()) {
        return error != kSuccess ? error : simdjson::NO_SUCH_FIELD;
      }
      names.push_back(name);
      objects.push_back(trim(raw));
      return kSuccess;
    });
  });
}

constexpr std::string_view kNamesKey = R"(,"NodeNames":[)";

// Returns the position of the first name if the body ends with ,"NodeNames":[...]}.
//
// In valid JSON, this key cannot be inside of a string, where its quotes would be escaped. The
// brace at the end of the body closes the outermost object, so the key belongs to that object.
// NodeLists checks that only names follow.
std::optional<std::size_t> names_at_end(std::string_view body) {
  if (!body.ends_with("]}")) {
    return std::nullopt;
  }
  const void* found = ::memrchr(body.data(), '[', body.size());
  if (found == nullptr) {
    return std::nullopt;
  }
  const auto begin = static_cast<std::size_t>(static_cast<const char*>(found) - body.data()) + 1;
  return body.substr(0, begin).ends_with(kNamesKey) ? std::optional(begin) : std::nullopt;
}

}  // namespace

// Reads the names at the end of the body, and copies the rest of the body to rest_. Returns false
// if the body does not end with names, or if a JSON parser must read them.
bool ArgsReader::read_names_at_end(json::PaddedView body) {
  const std::optional<std::size_t> begin = names_at_end(body.text());
  if (!begin) {
    return false;
  }
  const json::PaddedView text = body.part(*begin, body.size() - *begin - std::string_view("]}").size());
  const NodeList* list = lists_.read(text);
  if (list == nullptr) {
    return false;
  }
  node_args_.text = text;
  node_args_.nodes = list;
  rest_.clear();
  rest_.append(body.text().substr(0, *begin - kNamesKey.size()));
  rest_.append("}");
  return true;
}

// Reads the pod, and the nodes unless they have been read already.
Status ArgsReader::read_fields(json::PaddedView body, bool& has_pod) {
  NodeArgs& args = node_args_;
  const bool nodes_known = args.nodes != nullptr;
  return impl_->each_field_of(body, [&](std::string_view key, JsonValue value) -> Status {
    if (is_key(key, "pod")) {
      has_pod = true;
      args.annotation_bytes = 0;
      return read_pod_value(value, names_, args.pod,
                            body.size() < kMinBodyToCount ? nullptr : &args.annotation_bytes);
    }
    const bool by_name = is_key(key, "nodenames");
    if (nodes_known || (!by_name && !is_key(key, "nodes")) || kube::is_null(value)) {
      return {};
    }
    args.names_only = by_name;
    args.objects.clear();
    node_names_.clear();
    TRY(to_status(by_name ? read_names(value, node_names_) : read_nodes(value, node_names_, args.objects)));
    args.nodes = lists_.write(node_names_, written_);
    args.text = written_.view();
    return {};
  });
}

Result<const NodeArgs*> ArgsReader::node_args(json::PaddedView body) {
  NodeArgs& args = node_args_;
  args.names_only = true;
  args.nodes = nullptr;
  args.objects.clear();
  bool has_pod = false;
  // If the body has two lists of names, the last one counts, as for any repeated key.
  TRY(read_fields(read_names_at_end(body) ? rest_.view() : body, has_pod));
  if (!has_pod || args.nodes == nullptr) {
    return fail(ErrorCode::kInvalid,
                fmt::format("the body has no {}", has_pod ? "NodeNames or Nodes" : "Pod"));
  }
  return &args;
}

Result<BindArgs> ArgsReader::bind_args(json::PaddedView body) {
  BindArgs args;
  TRY(impl_->each_field_of(body, [&](std::string_view key, JsonValue value) -> Status {
    std::string* into = is_key(key, "podname")        ? &args.pod
                        : is_key(key, "podnamespace") ? &args.namespace_name
                        : is_key(key, "poduid")       ? &args.uid
                        : is_key(key, "node")         ? &args.node
                                                      : nullptr;
    return into == nullptr ? Status{} : to_status(kube::read_text(value, *into));
  }));
  for (const auto& [name, text] :
       {std::pair{"PodName", &args.pod}, std::pair{"PodNamespace", &args.namespace_name},
        std::pair{"PodUID", &args.uid}, std::pair{"Node", &args.node}}) {
    if (text->empty()) {
      return fail(ErrorCode::kInvalid, fmt::format("the body has no {}", name));
    }
  }
  return args;
}

namespace {

// Reads {"Pods":[...],"NumPDBViolations":0}; a pod is {"UID":"..."} or a whole Pod.
JsonError read_victims(JsonValue value, const alloc::ResourceNames& names, NodeVictims& into,
                       std::optional<Error>& wrong) {
  return each_entry(value, [&](std::string_view key, JsonValue part) {
    if (is_key(key, "numpdbviolations")) {
      return part.get_int64().get(into.pdb_violations);
    }
    if (!is_key(key, "pods")) {
      return kSuccess;
    }
    return each_element(part, [&](JsonValue pod) -> JsonError {
      JsonObject object;
      bool more = false;
      Victim victim;
      if (const JsonError error = pod.get_object().get(object); error != kSuccess) {
        return error;
      }
      for (auto entry : object) {
        simdjson::ondemand::field field;
        std::string_view name;
        if (const JsonError error = std::move(entry).get(field); error != kSuccess) {
          return error;
        }
        if (const JsonError error = field.unescaped_key().get(name); error != kSuccess) {
          return error;
        }
        if (is_key(name, "uid")) {
          const JsonError error = kube::read_text(field.value(), victim.uid);
          into.pods.push_back(std::move(victim));
          return error;
        }
        break;
      }
      if (const JsonError error = object.reset().get(more); error != kSuccess) {
        return error;
      }
      alloc::PodSpec whole;
      ObjectJson json(object);
      if (Status status = read_pod(json, names, whole); !status) {
        wrong = status.error();
        return kube::kStop;
      }
      into.pods.push_back({.uid = whole.uid, .has_priority = true, .priority = whole.priority});
      return kSuccess;
    });
  });
}

}  // namespace

Result<PreemptArgs> ArgsReader::preempt_args(json::PaddedView body) {
  PreemptArgs args;
  bool has_pod = false;
  TRY(impl_->each_field_of(body, [&](std::string_view key, JsonValue value) -> Status {
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
    return wrong ? Status(fail(std::move(*wrong))) : to_status(error);
  }));
  if (!has_pod) {
    return fail(ErrorCode::kInvalid, "the body has no Pod");
  }
  return args;
}

Status ArgsReader::pod(json::PaddedView body, alloc::PodSpec& into) {
  const simdjson::padded_string_view text(body.data(), body.size(), body.size() + json::kPadding);
  if (const JsonError error = impl_->simd.iterate(text).get(impl_->document); error != kSuccess) {
    return fail(json_error(error));
  }
  JsonObject root;
  if (const JsonError error = impl_->document.get_object().get(root); error != kSuccess) {
    return fail(json_error(error));
  }
  ObjectJson json(root);
  return read_pod(json, names_, into);
}

}  // namespace tessera::extender
