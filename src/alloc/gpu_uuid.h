// alloc/gpu_uuid.h
//
// The UUID of a GPU, stored compactly because a cluster has tens of thousands of GPUs. The driver's
// format, "GPU-" and a lower-case UUID, takes 16 bytes. Any other name (a MIG device, "index-0" on
// a node of the original plugin) is stored as text.
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

  // Comparison defines an arbitrary order that is the same in every process.
  friend bool operator==(const GpuUuid& a, const GpuUuid& b) { return (a <=> b) == 0; }
  friend std::strong_ordering operator<=>(const GpuUuid& a, const GpuUuid& b);

 private:
  using OtherName = std::shared_ptr<const std::string>;
  std::variant<Uuid, OtherName> name_;
};

}  // namespace tessera::alloc
