// gpu/xid.h
//
// Classifies XIDs, the error numbers of NVIDIA's driver. Pure.
//
//   ignored       an application error (a bad pointer); the GPU still works for other applications
//   recoverable   the GPU gets no new pods until it is healthy again
//   fatal         the GPU must be reset or replaced; also every XID that is in no list
//
// Default lists:
//   ignored       13 graphics engine exception, 31 page fault, 43 stopped processing, 45 cleanup
//                 after an application, 68 video processor exception, 109 context switch timeout
//                 (NVIDIA's own device plugin ignores these six)
//   recoverable   63 page retired or row to be remapped, 74 NVLink error, 92 many single-bit
//                 errors, 94 contained memory error (kills only the affected process),
//                 154 recovery action changed
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::gpu {

enum class XidClass { kIgnored, kRecoverable, kFatal };

struct XidRules {
  std::set<std::uint64_t> ignored = {13, 31, 43, 45, 68, 109};
  std::set<std::uint64_t> recoverable = {63, 74, 92, 94, 154};
  std::set<std::uint64_t> fatal;  // takes precedence over both other lists
  bool ignore_all = false;        // ignore every XID that is not in `fatal` or `recoverable`

  [[nodiscard]] XidClass classify(std::uint64_t xid) const;

  // Parses changes to the defaults: "ignored=62,74;fatal=94". "ignored=all" sets ignore_all.
  // Returns kInvalid with the part that is wrong.
  static Result<XidRules> parse(std::string_view text);
};

// Returns "XID 79 (the GPU has fallen off the bus)", or "XID 999" if there is no description.
std::string describe_xid(std::uint64_t xid);

}  // namespace tessera::gpu
