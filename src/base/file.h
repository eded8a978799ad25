// base/file.h
//
// Whole files, small ones: configuration, machine descriptions, /sys and /proc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera {

// All bytes of the file, "-" being standard input. A file over `max_bytes` is an error that says so, because
// nothing we read this way is ever large. Works on /proc and /sys, whose files claim to be empty.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes = 64U << 20U);

// Replaces the file in one step: a reader sees the old bytes or the new ones, never a part, and after a crash
// one of the two is there. The file gets `mode`.
Status write_file(const std::string& path, std::string_view bytes, unsigned mode = 0644);

}  // namespace tessera
