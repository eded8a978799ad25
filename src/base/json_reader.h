// base/json_reader.h
//
// Reads small untrusted JSON documents strictly. Errors name the field that is wrong:
//
//   const boost::json::value document = TRY(parse_json(annotation));
//   const JsonReader root(document, "tessera.io/inventory");
//   const std::int64_t version = TRY(root.integer("v", 1, 1));
//   for (const JsonReader& gpu : TRY(root.array("gpus", 64))) { TRY(gpu.text("uuid")); ... }
//   // tessera.io/inventory: gpus[3].uuid is missing
//
// For annotations, configuration and files. Hot paths use simdjson instead; the reasons are in
// docs/decisions/two-json-readers.md.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera {

// Parses one complete document. Returns kInvalid for malformed JSON (with the byte offset), for
// text over `max_bytes`, for nesting over 32 levels and for data after the end. If a key occurs
// twice, the last value wins.
Result<boost::json::value> parse_json(std::string_view text, std::size_t max_bytes = 1U << 20U);

// One value and its path in the document. The document must outlive the JsonReader.
class JsonReader {
 public:
  JsonReader(const boost::json::value& value, std::string path) : value_(&value), path_(std::move(path)) {}

  // Return the field `key` of this object. Return kInvalid if the field is missing, null or of
  // another type, if a number is not in [min, max], or if an array has more than `max_size`
  // elements.
  [[nodiscard]] Result<JsonReader> object(std::string_view key) const;
  [[nodiscard]] Result<std::string> text(std::string_view key) const;
  [[nodiscard]] Result<bool> boolean(std::string_view key) const;
  [[nodiscard]] Result<std::int64_t> integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  [[nodiscard]] Result<std::vector<JsonReader>> array(std::string_view key, std::size_t max_size) const;

  // Like text(), boolean() and integer(), but return `otherwise` if the field is missing or null.
  [[nodiscard]] Result<std::string> text_or(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] Result<bool> boolean_or(std::string_view key, bool otherwise) const;
  [[nodiscard]] Result<std::int64_t> integer_or(std::string_view key, std::int64_t min, std::int64_t max,
                                                std::int64_t otherwise) const;
  [[nodiscard]] bool has(std::string_view key) const;

  // Return this value itself, or kInvalid if it is of another type.
  [[nodiscard]] Result<std::string> as_text() const;
  [[nodiscard]] Result<std::int64_t> as_integer(std::int64_t min, std::int64_t max) const;
  [[nodiscard]] Result<std::vector<JsonReader>> as_array(std::size_t max_size) const;
  // The fields of this object, in document order.
  [[nodiscard]] Result<std::vector<std::pair<std::string, JsonReader>>> as_object(std::size_t max_size) const;

  [[nodiscard]] const std::string& path() const { return path_; }
  // Returns an Error that names this value: reader.wrong("is not a UUID").
  [[nodiscard]] Error wrong(std::string_view reason) const;

 private:
  [[nodiscard]] const boost::json::value* find(std::string_view key) const;
  [[nodiscard]] Result<JsonReader> field(std::string_view key) const;
  [[nodiscard]] std::string path_of(std::string_view key) const;

  const boost::json::value* value_;
  std::string path_;
};

}  // namespace tessera
