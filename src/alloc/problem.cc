#include "alloc/problem.h"

#include <array>

namespace tessera::alloc {

std::string_view to_string(ProblemKind kind) {
  static constexpr std::array<std::string_view, kProblemKinds> kNames = {
      "invalid_request", "unreadable_record", "wrong_record",     "unknown_index",        "lost_gpu",
      "undecided",       "changed_record",    "overcommitted",    "unreadable_inventory", "unit_differs",
      "second_plugin",   "unrecorded_pod",    "capacity_differs", "unreadable_pod",
  };
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace tessera::alloc
