// alloc/gpu_uuid.h
//
// The name of a GPU, kept small: a cluster has tens of thousands. "GPU-" and a UUID in lower case, which is
// what the driver gives, takes 16 bytes; any other name (a MIG device, "index-0" of an old node) is kept as
// it is.
#pragma once

#include <compare>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "base/uuid.h"

namespace tessera::alloc {

class GpuUuid {
 public:
  GpuUuid() : GpuUuid("") {}
  explicit GpuUuid(std::string_view text);

  [[nodiscard]] std::string text() const;

  // An order that means nothing, but is the same everywhere.
  friend bool operator==(const GpuUuid& a, const GpuUuid& b) { return (a <=> b) == 0; }
  friend std::strong_ordering operator<=>(const GpuUuid& a, const GpuUuid& b);

 private:
  using OtherName = std::shared_ptr<const std::string>;
  std::variant<Uuid, OtherName> name_;
};

}  // namespace tessera::alloc
