#include "alloc/gpu_uuid.h"

namespace tessera::alloc {
namespace {

constexpr std::string_view kPrefix = "GPU-";

}  // namespace

GpuUuid::GpuUuid(std::string_view text) {
  const auto uuid = text.starts_with(kPrefix) ? Uuid::parse(text.substr(kPrefix.size())) : std::nullopt;
  if (uuid) {
    name_ = *uuid;
  } else {
    name_ = std::make_shared<const std::string>(text);
  }
}

std::string GpuUuid::text() const {
  const Uuid* uuid = std::get_if<Uuid>(&name_);
  return uuid == nullptr ? *std::get<OtherName>(name_) : std::string(kPrefix) + uuid->text();
}

std::strong_ordering operator<=>(const GpuUuid& a, const GpuUuid& b) {
  if (a.name_.index() != b.name_.index()) {
    return a.name_.index() <=> b.name_.index();
  }
  if (const Uuid* uuid = std::get_if<Uuid>(&a.name_)) {
    return *uuid <=> std::get<Uuid>(b.name_);
  }
  return *std::get<GpuUuid::OtherName>(a.name_) <=> *std::get<GpuUuid::OtherName>(b.name_);
}

}  // namespace tessera::alloc
