// cli/output/messages.h
//
// Errors and warnings of all commands have the same form:
//
//   tessera: node "gpu-z" does not exist
//   warning: node gpu-a: its inventory cannot be read
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "base/error.h"

namespace tessera::cli {

// Writes "tessera: MESSAGE" and returns the exit code of a command that failed.
inline int report_error(const Error& error, std::ostream& err) {
  err << "tessera: " << error.text() << '\n';
  return 1;
}

inline void report_warnings(const std::vector<std::string>& warnings, std::ostream& err) {
  for (const std::string& warning : warnings) {
    err << "warning: " << warning << '\n';
  }
}

}  // namespace tessera::cli
