// base/file.h
//
// Reads and writes small files as a whole: configuration, machine descriptions, /sys and /proc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera {

// Returns the contents of the file `path`, or of standard input if `path` is "-". Returns kInvalid
// if the file is larger than `max_bytes`, or the error of open(2) or read(2). Works for /proc and
// /sys, where files report a size of 0.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes = 64U << 20U);

// Replaces the file atomically: readers see either the old or the new contents, even after a crash.
// The file gets the permissions `mode`. On failure the old file stays.
Status write_file(const std::string& path, std::string_view bytes, unsigned mode = 0644);

}  // namespace tessera
