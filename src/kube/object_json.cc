#include "kube/object_json.h"

#include "base/strings.h"

namespace tessera::kube {

JsonError read_text(JsonValue value, std::string& into) {
  std::string_view text;
  const JsonError error = value.get_string().get(text);
  if (error == simdjson::SUCCESS) {
    into.assign(text);
    return error;
  }
  into.clear();
  return error == simdjson::INCORRECT_TYPE && is_null(value) ? simdjson::SUCCESS : error;
}

JsonError read_meta_field(JsonKey key, JsonValue value, ObjectMeta& meta, bool& taken) {
  taken = true;
  if (is(key, "name")) {
    return read_text(value, meta.name);
  }
  if (is(key, "namespace")) {
    return read_text(value, meta.namespace_name);
  }
  if (is(key, "uid")) {
    return read_text(value, meta.uid);
  }
  if (is(key, "resourceVersion")) {
    return value.get_uint64_in_string().get(meta.version);
  }
  taken = false;
  return simdjson::SUCCESS;
}

Status check_meta(const ObjectMeta& meta) {
  if (meta.name.empty() || meta.uid.empty() || meta.version == 0) {
    return fail(ErrorCode::kInvalid, "object " + tessera::quoted(meta.namespace_name + "/" + meta.name) +
                                         ": its metadata lacks name, uid or resourceVersion");
  }
  return {};
}

}  // namespace tessera::kube
