#include "base/json_reader.h"

#include <fmt/core.h>

#include <boost/json.hpp>

#include "base/strings.h"

namespace tessera {

namespace json = boost::json;

Result<json::value> parse_json(std::string_view text, std::size_t max_bytes) {
  if (text.size() > max_bytes) {
    return fail(ErrorCode::kInvalid,
                fmt::format("JSON of {} bytes is larger than the limit of {}", text.size(), max_bytes));
  }
  json::parse_options options;
  options.max_depth = 32;
  json::error_code error;
  json::stream_parser parser(json::storage_ptr(), options);
  const std::size_t used = parser.write_some(text.data(), text.size(), error);
  if (!error && used < text.size() && !trim(text.substr(used)).empty()) {
    return fail(ErrorCode::kInvalid, fmt::format("not JSON: extra data after the end, at byte {}", used));
  }
  if (!error) {
    parser.finish(error);
  }
  if (error == json::error::incomplete) {
    return fail(ErrorCode::kInvalid,
                text.empty() ? "not JSON: the text is empty" : "not JSON: the text is cut off");
  }
  if (error) {
    return fail(ErrorCode::kInvalid, fmt::format("not JSON: {} at byte {}", error.message(), used));
  }
  return parser.release();
}

Error JsonReader::wrong(std::string_view reason) const {
  return {ErrorCode::kInvalid, fmt::format("{} {}", path_, reason)};
}

std::string JsonReader::path_of(std::string_view key) const {
  // A key may come from outside, and errors are kept.
  constexpr std::size_t kMostKeyBytes = 80;
  const std::string name = key.size() > kMostKeyBytes ? in_quotes(key, kMostKeyBytes) : std::string(key);
  return path_.empty() ? name : fmt::format("{}.{}", path_, name);
}

const json::value* JsonReader::find(std::string_view key) const {
  const json::object* fields = value_->if_object();
  if (fields == nullptr) {
    return nullptr;
  }
  const json::value* found = fields->if_contains(json::string_view(key.data(), key.size()));
  return found == nullptr || found->is_null() ? nullptr : found;
}

bool JsonReader::has(std::string_view key) const {
  return find(key) != nullptr;
}

Result<JsonReader> JsonReader::field(std::string_view key) const {
  if (!value_->is_object()) {
    return fail(wrong("is not an object"));
  }
  const json::value* found = find(key);
  if (found == nullptr) {
    return fail(ErrorCode::kInvalid, path_of(key) + " is missing");
  }
  return JsonReader(*found, path_of(key));
}

Result<JsonReader> JsonReader::object(std::string_view key) const {
  JsonReader found = TRY(field(key));
  if (!found.value_->is_object()) {
    return fail(found.wrong("is not an object"));
  }
  return found;
}

Result<std::string> JsonReader::text(std::string_view key) const {
  return TRY(field(key)).as_text();
}

Result<bool> JsonReader::boolean(std::string_view key) const {
  const JsonReader found = TRY(field(key));
  if (!found.value_->is_bool()) {
    return fail(found.wrong("is neither true nor false"));
  }
  return found.value_->get_bool();
}

Result<std::int64_t> JsonReader::integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  return TRY(field(key)).as_integer(min, max);
}

Result<std::vector<JsonReader>> JsonReader::array(std::string_view key, std::size_t max_size) const {
  return TRY(field(key)).as_array(max_size);
}

Result<std::string> JsonReader::text_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : Result<std::string>(std::string(otherwise));
}

Result<bool> JsonReader::boolean_or(std::string_view key, bool otherwise) const {
  return has(key) ? boolean(key) : Result<bool>(otherwise);
}

Result<std::int64_t> JsonReader::integer_or(std::string_view key, std::int64_t min, std::int64_t max,
                                            std::int64_t otherwise) const {
  return has(key) ? integer(key, min, max) : Result<std::int64_t>(otherwise);
}

Result<std::string> JsonReader::as_text() const {
  const json::string* found = value_->if_string();
  if (found == nullptr) {
    return fail(wrong("is not a string"));
  }
  return std::string(found->data(), found->size());
}

Result<std::int64_t> JsonReader::as_integer(std::int64_t min, std::int64_t max) const {
  // Boost.JSON stores numbers above 2^63 as unsigned. They are outside every range we use.
  const std::int64_t* found = value_->if_int64();
  if (found == nullptr) {
    return fail(wrong(value_->is_uint64() ? "is too large" : "is not a whole number"));
  }
  if (*found < min || *found > max) {
    return fail(wrong(fmt::format("is {}, not in {}..{}", *found, min, max)));
  }
  return *found;
}

Result<std::vector<JsonReader>> JsonReader::as_array(std::size_t max_size) const {
  const json::array* found = value_->if_array();
  if (found == nullptr) {
    return fail(wrong("is not a list"));
  }
  if (found->size() > max_size) {
    return fail(wrong(fmt::format("has {} entries, more than the limit of {}", found->size(), max_size)));
  }
  std::vector<JsonReader> readers;
  readers.reserve(found->size());
  for (std::size_t i = 0; i < found->size(); ++i) {
    readers.emplace_back((*found)[i], fmt::format("{}[{}]", path_, i));
  }
  return readers;
}

Result<std::vector<std::pair<std::string, JsonReader>>> JsonReader::as_object(std::size_t max_size) const {
  const json::object* found = value_->if_object();
  if (found == nullptr) {
    return fail(wrong("is not an object"));
  }
  if (found->size() > max_size) {
    return fail(wrong(fmt::format("has {} fields, more than the limit of {}", found->size(), max_size)));
  }
  std::vector<std::pair<std::string, JsonReader>> fields;
  fields.reserve(found->size());
  for (const json::key_value_pair& entry : *found) {
    std::string key(entry.key().data(), entry.key().size());
    JsonReader reader(entry.value(), path_of(key));
    fields.emplace_back(std::move(key), std::move(reader));
  }
  return fields;
}

}  // namespace tessera
