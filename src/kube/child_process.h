// kube/child_process.h
//
// Runs a program to its end and keeps what it printed: for exec credential plugins.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tessera::kube {

struct ProgramCall {
  std::string command;  // looked for in PATH unless it has a slash
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  // added to ours; these win
  std::chrono::milliseconds timeout{60'000};
};

struct ProgramOutput {
  int exit_code = 0;  // 128 + signal when a signal ended it, as shells say it
  std::string out;
  std::string err;  // at most the last 4 KiB
};

// Standard input is /dev/null. The program gets a process group of its own, which is killed when it does not
// end in time (kTimeout) or prints more than 1 MiB (kInvalid). kNotFound when there is no such program.
// Blocks the calling thread; any thread may call.
Result<ProgramOutput> run_program(const ProgramCall& call);

}  // namespace tessera::kube
