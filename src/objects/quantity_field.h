// objects/quantity_field.h
//
// Reads amounts of resources in API objects. They are usually strings, sometimes plain numbers.
// Includes simdjson, so include this header only in .cc files.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/quantity.h"
#include "base/result.h"
#include "objects/object_fields.h"

namespace tessera::objects {

// Reads the amounts of one object. A malformed amount does not stop the decoding, so that the
// object's metadata is always read. status() returns the first such error.
class QuantityFields {
 public:
  // Reads the amount of resource `name`. Keeps `into` unchanged if the amount is malformed. The
  // result is an error only if the JSON itself is malformed.
  JsonError read(std::string_view name, JsonValue value, Quantity& into);
  // read_milli() reads an amount in thousandths, read_whole() in whole units. Both round up, as
  // Kubernetes does.
  JsonError read_milli(std::string_view name, JsonValue value, std::int64_t& into);
  JsonError read_whole(std::string_view name, JsonValue value, std::int64_t& into);

  [[nodiscard]] const Status& status() const { return status_; }

 private:
  void note(Error error);

  Status status_;
};

}  // namespace tessera::objects
