// cli/output/messages.h
//
// Errors and warnings of all commands have the same form:
//
//   tessera: node "gpu-z" does not exist
//   warning: node gpu-a: its inventory cannot be read
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/output/safe_output.h"

namespace tessera::cli {

// Writes "tessera: MESSAGE" and returns the exit code of a command that failed.
inline int report_error(const Error& error, std::ostream& err) {
  err << "tessera: " << error.text() << '\n';
  return 1;
}

inline void report_warnings(const std::vector<std::string>& warnings, std::ostream& err) {
  for (const std::string& warning : warnings) {
    err << "warning: " << printable(warning) << '\n';
  }
}

// Returns "a, b" or, if there are more than `most` names, "a, b and 2 more".
inline std::string some_of(const std::vector<std::string>& names, std::size_t most) {
  if (names.size() <= most) {
    return fmt::format("{}", fmt::join(names, ", "));
  }
  return fmt::format("{} and {} more",
                     fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(most), ", "),
                     names.size() - most);
}

}  // namespace tessera::cli
