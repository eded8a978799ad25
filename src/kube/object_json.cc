#include "kube/object_json.h"

#include "base/strings.h"

namespace tessera::kube {

JsonError read_text(JsonValue value, std::string& into) {
  std::string_view text;
  const JsonError error = read_view(value, text);
  if (error == simdjson::SUCCESS) {
    into.assign(text);
    return error;
  }
  into.clear();
  return error == simdjson::INCORRECT_TYPE && is_null(value) ? simdjson::SUCCESS : error;
}

Status check_meta(const ObjectMeta& meta) {
  if (meta.name.empty() || meta.uid.empty() || meta.version == 0) {
    return fail(ErrorCode::kInvalid, "object " + in_quotes(meta.namespace_name + "/" + meta.name) +
                                         ": its metadata has no name, uid or resourceVersion");
  }
  return {};
}

}  // namespace tessera::kube
