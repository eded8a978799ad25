// cli/command/usage_error.h
//
// Reports an invalid command line in one line that says what to do:
//
//   tessera: unknown command "tpo"; did you mean "topo"?
//   tessera: unknown flag "--ouput" of "tessera why"; did you mean "--output"?
//   tessera: --interval is 0, but must be from 1 to 3600; run "tessera why --help"
//   tessera: --unit: "lots" is not a unit ...; run "tessera check --help"
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command/command.h"

namespace CLI {
class ParseError;
}

namespace tessera::cli {

// The exit code for an invalid command line.
inline constexpr int kUsageError = 2;

// Returns the subcommand that `words` name, with its full name ("tessera top node") in `path`.
// Returns null, with a message in `problem`, if a word is not a subcommand.
const CLI::App* find_command(const CLI::App& app, const std::vector<std::string>& words, std::string& path,
                             std::string& problem);

// Handles what app.parse() threw: prints help or the version to `out`, or an error to `err`.
// Returns 0, or kUsageError after an error.
int report_parse_error(const CLI::App& app, const CLI::ParseError& error, std::ostream& out,
                       std::ostream& err);

}  // namespace tessera::cli
