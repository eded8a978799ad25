// gpu/xid.h
//
// What an XID, the number under which NVIDIA's driver reports an error, says about the GPU. Pure.
//
//   ignored       a program's own fault (a bad pointer): the GPU goes on working for all others
//   recoverable   the GPU is not to be given to new pods until it answers well again
//   fatal         the GPU must be reset or replaced; so is every XID that no list names
//
// Default lists:
//   ignored       13 graphics engine exception, 31 page fault, 43 stopped processing, 45 cleaned up after a
//                 program, 68 video processor exception, 109 context switch time-out (NVIDIA's own device
//                 plugin ignores these six)
//   recoverable   63 page retired or row to be remapped, 74 NVLink error, 92 many single-bit errors,
//                 94 contained memory error (only the program that met it dies), 154 recovery action changed
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
  std::set<std::uint64_t> fatal;  // wins over both
  bool ignore_all = false;        // but for those in `fatal` and `recoverable`

  [[nodiscard]] XidClass classify(std::uint64_t xid) const;

  // Changes to the defaults: "ignored=62,74;fatal=94". `ignored=all` ignores what no list names. Fails with
  // the part that is wrong.
  static Result<XidRules> parse(std::string_view text);
};

// "XID 79 (the GPU has fallen off the bus)"; "XID 999" when we have no words for it.
std::string describe_xid(std::uint64_t xid);

}  // namespace tessera::gpu
