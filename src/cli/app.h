// cli/app.h
//
// The `tessera` command: parses the command line, runs one subcommand and returns its exit code.
#pragma once

namespace tessera::cli {

// Returns 0 on success, 1 if the command failed or its output could not be written, 2 if the command
// line is invalid. Commands may return other codes (`check`).
int run(int argc, char** argv);

}  // namespace tessera::cli
