// kube/child_process.h
//
// Runs a program and collects its output. Used for exec credential plugins.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tessera::kube {

struct ProgramCall {
  std::string command;  // searched in PATH unless it contains a slash
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  // added to the environment of this process
  std::chrono::milliseconds timeout{60'000};
};

struct ProgramOutput {
  int exit_code = 0;  // 128 + signal number if a signal ended it, as in a shell
  std::string out;
  std::string err;  // the last 4 KiB at most
};

// Runs a program with /dev/null as standard input, in its own process group. Returns kTimeout if
// the program does not end in time, and kInvalid if it prints more than 1 MiB; the process group is
// then killed. Returns kNotFound if there is no such program. Blocks the calling thread. Any thread
// may call this.
Result<ProgramOutput> run_program(const ProgramCall& call);

}  // namespace tessera::kube
