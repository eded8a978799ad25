// kube/object_json.h
//
// The definition of ObjectJson and helpers for decoders. Includes simdjson, so include it only in
// .cc files.
//
// simdjson's On-Demand parser is a cursor that moves forward over the text. A decoder visits the
// fields in the order of the document and reads each value at most once:
//
//   const JsonError error = each_field(object.object(), [&](JsonKey key, JsonValue value) {
//     return is(key, "spec") ? read_spec(value) : simdjson::SUCCESS;
//   });
//   TRY(object.judge(error));
#pragma once

#include <simdjson.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/result.h"
#include "kube/object_meta.h"

namespace tessera::kube {

using JsonError = simdjson::error_code;
using JsonValue = simdjson::ondemand::value;
using JsonObject = simdjson::ondemand::object;
using JsonKey = simdjson::ondemand::raw_json_string;

// Returns whether a field has this name, with one comparison of constant length. Reading beyond the
// key is safe, because a quote, the rest of the document and the padding follow the key.
template <std::size_t Size>
bool is(JsonKey key, const char (&name)[Size]) {
  static_assert(Size <= simdjson::SIMDJSON_PADDING);
  return std::memcmp(key.raw(), name, Size - 1) == 0 && key.raw()[Size - 1] == '"';
}

// A visitor returns this to stop the iteration for a reason other than a simdjson error.
inline constexpr JsonError kStop = simdjson::UNEXPECTED_ERROR;

// Returns whether the document ends here.
inline bool at_end(simdjson::ondemand::document& document) {
  return document.current_location().error() == simdjson::OUT_OF_BOUNDS;
}

// Frees the memory of a parser that has parsed a much larger document than the next one. A parser
// may need several times the size of its largest document, and keeps that memory.
inline void fit_parser(simdjson::ondemand::parser& parser, std::size_t next_bytes) {
  constexpr std::size_t kKeptBytes = 1U << 20U;
  if (parser.capacity() > kKeptBytes && next_bytes < parser.capacity() / 4) {
    parser = simdjson::ondemand::parser();
  }
}

class ObjectJson {
 public:
  explicit ObjectJson(JsonObject object) : object_(object) {}

  JsonObject& object() { return object_; }

  // Converts an error of simdjson to a Status. If the text itself is malformed, broken() is true
  // from then on: nothing after this object can be parsed either.
  Status judge(JsonError error) {
    if (error == simdjson::SUCCESS) {
      return {};
    }
    broken_ = broken_ || (error != simdjson::INCORRECT_TYPE && error != simdjson::NO_SUCH_FIELD);
    return fail(ErrorCode::kInvalid,
                std::string("cannot parse the object: ") + simdjson::error_message(error));
  }
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  JsonObject object_;
  bool broken_ = false;
};

// Returns whether the value is null, which Go writes for empty values.
inline bool is_null(JsonValue& value) {
  bool null = false;
  return value.is_null().get(null) == simdjson::SUCCESS && null;
}

// Returns the first quote or backslash at or after `at`. This terminates, because simdjson has
// checked that each string ends with a quote; reading ahead is safe because of the padding.
inline const char* end_of_plain(const char* at) {
#if defined(__SSE2__)
  for (;; at += sizeof(__m128i)) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i ends =
        _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    if (const auto found = static_cast<std::uint32_t>(_mm_movemask_epi8(ends)); found != 0) {
      return at + std::countr_zero(found);
    }
  }
#else
  while (*at != '"' && *at != '\\') {
    ++at;
  }
  return at;
#endif
}

// Returns the text of a string, valid as long as the document. A string without escapes, which is
// the normal case, is a view into the document. (simdjson would copy it, byte by byte on older
// processors.)
inline JsonError read_view(JsonValue& value, std::string_view& text) {
  const char* const token = value.raw_json_token().data();
  if (*token == '"') {
    if (const char* const end = end_of_plain(token + 1); *end == '"') {
      text = {token + 1, static_cast<std::size_t>(end - token - 1)};
      JsonKey passed;  // moves the cursor
      return value.get_raw_json_string().get(passed);
    }
  }
  return value.get_string().get(text);
}

// Like read_view(), for the key of a field.
inline JsonError read_key(simdjson::ondemand::field& field, std::string_view& text) {
  const char* const begin = field.key().raw();
  if (const char* const end = end_of_plain(begin); *end == '"') {
    text = {begin, static_cast<std::size_t>(end - begin)};
    return simdjson::SUCCESS;
  }
  return field.unescaped_key().get(text);
}

// Calls `visit(key, value)` for each field until it returns an error. null counts as an empty
// object.
template <class Visit>
JsonError each_field(JsonObject& object, Visit visit) {
  for (auto entry : object) {
    simdjson::ondemand::field field;
    if (const JsonError error = std::move(entry).get(field); error != simdjson::SUCCESS) {
      return error;
    }
    JsonValue value = field.value();
    if (const JsonError error = visit(field.key(), value); error != simdjson::SUCCESS) {
      return error;
    }
  }
  return simdjson::SUCCESS;
}

template <class Visit>
JsonError each_field(JsonValue value, Visit visit) {
  JsonObject object;
  const JsonError error = value.get_object().get(object);
  if (error != simdjson::SUCCESS) {
    return error == simdjson::INCORRECT_TYPE && is_null(value) ? simdjson::SUCCESS : error;
  }
  return each_field(object, std::move(visit));
}

// Like each_field(), for maps whose keys are data (labels, annotations, limits): calls
// `visit(std::string_view, value)`.
template <class Visit>
JsonError each_entry(JsonValue value, Visit visit) {
  JsonObject object;
  const JsonError error = value.get_object().get(object);
  if (error != simdjson::SUCCESS) {
    return error == simdjson::INCORRECT_TYPE && is_null(value) ? simdjson::SUCCESS : error;
  }
  for (auto entry : object) {
    simdjson::ondemand::field field;
    if (const JsonError bad = std::move(entry).get(field); bad != simdjson::SUCCESS) {
      return bad;
    }
    std::string_view key;
    if (const JsonError bad = read_key(field, key); bad != simdjson::SUCCESS) {
      return bad;
    }
    if (const JsonError bad = visit(key, field.value()); bad != simdjson::SUCCESS) {
      return bad;
    }
  }
  return simdjson::SUCCESS;
}

// Calls `visit(value)` for each element. null counts as an empty array.
template <class Visit>
JsonError each_element(JsonValue value, Visit visit) {
  simdjson::ondemand::array array;
  const JsonError error = value.get_array().get(array);
  if (error != simdjson::SUCCESS) {
    return error == simdjson::INCORRECT_TYPE && is_null(value) ? simdjson::SUCCESS : error;
  }
  for (auto entry : array) {
    JsonValue element;
    if (const JsonError bad = std::move(entry).get(element); bad != simdjson::SUCCESS) {
      return bad;
    }
    if (const JsonError bad = visit(element); bad != simdjson::SUCCESS) {
      return bad;
    }
  }
  return simdjson::SUCCESS;
}

// Copies a string. null counts as "".
JsonError read_text(JsonValue value, std::string& into);

// Reads a field of `metadata` into `meta` if it is the name, namespace, uid or resourceVersion.
// Sets `taken` to true if the field is one of these four, otherwise to false.
inline JsonError read_meta_field(JsonKey key, JsonValue& value, ObjectMeta& meta, bool& taken) {
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

// Reads name, namespace, uid and resourceVersion into `meta`, and calls `visit(key, value)` for all
// other fields of `metadata`.
template <class Visit>
JsonError each_meta_field(JsonValue metadata, ObjectMeta& meta, Visit visit) {
  return each_field(metadata, [&](JsonKey key, JsonValue value) -> JsonError {
    bool taken = false;
    const JsonError error = read_meta_field(key, value, meta, taken);
    return taken || error != simdjson::SUCCESS ? error : visit(key, value);
  });
}

// Reads only name, namespace, uid and resourceVersion.
inline JsonError read_meta(JsonValue metadata, ObjectMeta& meta) {
  return each_meta_field(metadata, meta, [](JsonKey, JsonValue) { return simdjson::SUCCESS; });
}

// Returns kInvalid if name, uid or resourceVersion is missing.
Status check_meta(const ObjectMeta& meta);

}  // namespace tessera::kube
