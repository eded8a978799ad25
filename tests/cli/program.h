// tests/cli/program.h
//
// Runs a program that stands beside the test, as a shell would: through pipes, or on a terminal.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tessera::cli {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;  // on a terminal all stands in `out`
};

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The path of a program in this test's directory.
std::string program_path(const std::string& name);

using Environment = std::map<std::string, std::string>;

Outcome run_in_pipe(const std::string& name, const std::vector<std::string>& words,
                    const Environment& environment = {});
// Reads until `text` has come, goes away as `head` does, and waits for the program's end: its exit code, or
// -1 when it had to be killed after 20 seconds.
int run_and_go_away(const std::string& name, const std::vector<std::string>& words, const std::string& text);
// Standard input, output and error are a terminal of 24 rows that changes no byte.
Outcome run_on_terminal(const std::string& name, const std::vector<std::string>& words,
                        const Environment& environment = {});

// A program that runs on a terminal until it is told to end.
class TerminalProgram {
 public:
  TerminalProgram(const std::string& name, const std::vector<std::string>& words,
                  const Environment& environment);
  TerminalProgram(const TerminalProgram&) = delete;
  TerminalProgram& operator=(const TerminalProgram&) = delete;
  ~TerminalProgram();

  // Reads on until `text` has appeared in what is new since the last call; false after 20 seconds.
  bool read_until(const std::string& text);
  void signal(int number) const;
  void resize(unsigned short rows, unsigned short columns) const;
  // Reads to the end and gives the exit code.
  int finish();
  [[nodiscard]] const std::string& output() const { return output_; }

 private:
  bool read_some(std::chrono::milliseconds at_most);

  pid_t child_ = -1;
  int terminal_ = -1;
  std::string output_;
  std::size_t seen_ = 0;
};

}  // namespace tessera::cli
