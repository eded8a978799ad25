// cli/app.h
//
// The `tessera` command: reads the command line, runs one subcommand, gives its exit code.
#pragma once

namespace tessera::cli {

// 0 success, 1 the command failed, 2 the command line makes no sense.
int run(int argc, char** argv);

}  // namespace tessera::cli
