// kube/object_identity.h
//
// Reads the identity of an object that is too large for memory from its JSON, piece by piece.
//
//   json::FieldScanner scanner(identity_fields("object", {"type"}));
//   scanner.feed(piece); ...
//   const ObjectMeta meta = identity(scanner, "object");
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "json/field_scanner.h"
#include "kube/object_meta.h"

namespace tessera::kube {

// Returns `others` and the paths of the fields that identify an object. The object is the value of
// the field `under`.
[[nodiscard]] std::vector<std::string> identity_fields(const std::string& under,
                                                       std::vector<std::string> others);

// Returns the metadata that the scanner found. Fields that it did not find are empty.
[[nodiscard]] ObjectMeta identity(const json::FieldScanner& scanner, const std::string& under);

// Parses a resourceVersion. Returns 0 if it is not a number.
[[nodiscard]] std::uint64_t version_of(std::string_view text);

}  // namespace tessera::kube
