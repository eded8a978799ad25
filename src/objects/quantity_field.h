// objects/quantity_field.h
//
// Amounts of resources in API objects: text almost always, a bare number now and then. For .cc files only.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/quantity.h"
#include "base/result.h"
#include "objects/object_fields.h"

namespace tessera::objects {

// Reads amounts; one that is no quantity does not stop the reading of the object, so that its metadata is
// always known, but is told by status() in the end (the first one).
class QuantityFields {
 public:
  JsonError read(std::string_view name, JsonValue value, Quantity& into);
  // In thousandths, and in whole units, rounded up as Kubernetes does.
  JsonError read_milli(std::string_view name, JsonValue value, std::int64_t& into);
  JsonError read_whole(std::string_view name, JsonValue value, std::int64_t& into);

  [[nodiscard]] const Status& status() const { return status_; }

 private:
  void note(Error error);

  Status status_;
};

}  // namespace tessera::objects
