// objects/pod_details_reader.h
//
// The part of decode_pod() that fills PodDetails. decode_pod() passes the fields that it does not
// use itself to this reader. Includes simdjson, so include this header only in .cc files.
#pragma once

#include <string_view>

#include "objects/object_fields.h"
#include "objects/pod_details.h"

namespace tessera::objects {

class PodDetailsReader {
 public:
  explicit PodDetailsReader(PodDetails& details) : details_(details) { details = PodDetails{}; }

  JsonError label(std::string_view key, JsonValue value);
  JsonError annotation(std::string_view key, JsonValue value);
  JsonError metadata(JsonKey key, JsonValue value);
  JsonError spec(JsonKey key, JsonValue value);
  JsonError status(JsonKey key, JsonValue value);
  void keep_reason(std::string_view reason) { details_.reason = reason; }
  // Keeps a limit that is not a resource of Tessera, if it looks like a GPU. Helm charts often write
  // 0 for "no GPU", so a limit of 0 is not kept.
  void other_limit(std::string_view resource, JsonValue& amount);
  // Reads the message of a container's state `waiting`.
  static JsonError waiting(JsonValue value, std::string& message);
  void keep_waiting(std::string_view container, std::string message);

 private:
  JsonError owner(JsonValue reference);
  JsonError managed_fields(JsonValue entry);

  PodDetails& details_;
};

// Reads one taint or toleration.
JsonError read_taint(JsonValue element, Taint& taint);

}  // namespace tessera::objects
