#include "gpu/xid.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace tessera::gpu {

namespace {

constexpr std::int64_t kLargestXid = 99'999;

struct Words {
  std::uint64_t xid;
  std::string_view text;
};

constexpr std::array kWords = std::to_array<Words>({
    {13, "application error: graphics engine exception"},
    {31, "application error: GPU memory page fault"},
    {43, "application error: GPU stopped processing"},
    {45, "cleanup after an application ended"},
    {48, "uncorrectable double-bit memory error"},
    {61, "internal micro-controller breakpoint"},
    {62, "internal micro-controller halt"},
    {63, "memory page retired or row to be remapped"},
    {64, "memory page retirement or row remapping failed"},
    {68, "application error: video processor exception"},
    {74, "NVLink error"},
    {79, "the GPU has fallen off the bus"},
    {92, "high rate of single-bit memory errors"},
    {94, "contained memory error"},
    {95, "uncontained memory error"},
    {109, "application error: context switch timeout"},
    {119, "the GPU system processor does not answer"},
    {120, "GPU system processor error"},
    {140, "unrecovered memory error"},
    {143, "the GPU cannot be initialized"},
    {154, "the driver asks for a recovery action"},
});

Status read_list(std::string_view list, std::set<std::uint64_t>& xids) {
  for (const std::string_view part : split(list, ',')) {
    const auto number = parse_int(trim(part));
    if (!number || *number < 1 || *number > kLargestXid) {
      return fail(ErrorCode::kInvalid, fmt::format("{} is not an XID number", in_quotes(part)));
    }
    xids.insert(static_cast<std::uint64_t>(*number));
  }
  return {};
}

}  // namespace

XidClass XidRules::classify(std::uint64_t xid) const {
  if (fatal.contains(xid)) {
    return XidClass::kFatal;
  }
  if (ignored.contains(xid)) {
    return XidClass::kIgnored;
  }
  if (recoverable.contains(xid)) {
    return XidClass::kRecoverable;
  }
  return ignore_all ? XidClass::kIgnored : XidClass::kFatal;
}

Result<XidRules> XidRules::parse(std::string_view text) {
  XidRules rules;
  std::set<std::uint64_t> ignored;
  std::set<std::uint64_t> recoverable;
  for (const std::string_view part : split(text, ';')) {
    if (trim(part).empty()) {
      continue;
    }
    const auto equals = part.find('=');
    const std::string_view key = trim(part.substr(0, equals));
    const std::string_view list = equals == std::string_view::npos ? "" : trim(part.substr(equals + 1));
    if (key == "ignored" && list == "all") {
      rules.ignore_all = true;
    } else if (key == "ignored") {
      TRY(read_list(list, ignored));
    } else if (key == "recoverable") {
      TRY(read_list(list, recoverable));
    } else if (key == "fatal") {
      TRY(read_list(list, rules.fatal));
    } else {
      return fail(
          ErrorCode::kInvalid,
          fmt::format("XID rule {} is not ignored=13,31 or recoverable=... or fatal=...", in_quotes(part)));
    }
  }
  // An XID that the user lists as recoverable is removed from the default ignored list.
  for (const std::uint64_t xid : recoverable) {
    rules.ignored.erase(xid);
  }
  rules.ignored.insert(ignored.begin(), ignored.end());
  rules.recoverable.insert(recoverable.begin(), recoverable.end());
  return rules;
}

std::string describe_xid(std::uint64_t xid) {
  const auto* found = std::ranges::find(kWords, xid, &Words::xid);
  return found == kWords.end() ? fmt::format("XID {}", xid) : fmt::format("XID {} ({})", xid, found->text);
}

}  // namespace tessera::gpu
