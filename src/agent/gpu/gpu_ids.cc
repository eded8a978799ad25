#include "agent/gpu/gpu_ids.h"

#include <fmt/core.h>

#include <algorithm>

namespace tessera::agent {

namespace {

constexpr std::size_t kTagLength = 8;

bool is_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// FNV-1a: the same in every process.
std::uint32_t hash_of(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return hash;
}

// What a person recognises, where the UUID looks as usual.
std::string first_choice(std::string_view uuid) {
  const std::size_t dash = uuid.find('-');
  const std::string_view digits =
      dash == std::string_view::npos ? std::string_view() : uuid.substr(dash + 1, kTagLength);
  return digits.size() == kTagLength && is_hex(digits) ? std::string(digits)
                                                       : fmt::format("{:08x}", hash_of(uuid));
}

}  // namespace

const std::string& GpuIds::tag(std::string_view uuid) {
  if (const auto known = tags_.find(uuid); known != tags_.end()) {
    return known->second;
  }
  std::string tag = first_choice(uuid);
  for (int attempt = 0; uuids_.contains(tag); ++attempt) {
    tag = fmt::format("{:08x}", hash_of(fmt::format("{}#{}", uuid, attempt)));
  }
  uuids_.emplace(tag, uuid);
  return tags_.emplace(uuid, std::move(tag)).first->second;
}

std::string GpuIds::share(std::string_view uuid, std::uint32_t number) {
  return fmt::format("{}-{}", tag(uuid), number);
}

std::optional<std::string> GpuIds::gpu_of(std::string_view id) const {
  if (!is_ours(id)) {
    return std::nullopt;
  }
  const auto found = uuids_.find(id.substr(0, kTagLength));
  return found == uuids_.end() ? std::nullopt : std::optional<std::string>(found->second);
}

bool GpuIds::is_ours(std::string_view id) {
  if (id.size() < kTagLength || !is_hex(id.substr(0, kTagLength))) {
    return false;
  }
  const std::string_view rest = id.substr(kTagLength);
  return rest.empty() || (rest.size() > 1 && rest.front() == '-' &&
                          std::ranges::all_of(rest.substr(1), [](char c) { return c >= '0' && c <= '9'; }));
}

}  // namespace tessera::agent
