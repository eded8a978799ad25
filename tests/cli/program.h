// tests/cli/program.h
//
// Runs a program from the directory of the test binary the way a shell does: with pipes, or on a
// terminal.
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
  std::string err;  // empty on a terminal, where everything is in `out`
};

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Returns the path of a program in the directory of the test binary.
std::string program_path(const std::string& name);

using Environment = std::map<std::string, std::string>;

Outcome run_in_pipe(const std::string& name, const std::vector<std::string>& words,
                    const Environment& environment = {});
// Standard output is the file descriptor `out`. Outcome::out stays empty.
Outcome run_into(int out, const std::string& name, const std::vector<std::string>& words);
// Reads until `text` appears, closes the pipe as `head` does, and waits for the program to end.
// Returns its exit code, or -1 if it had to be killed after 20 seconds.
int run_and_close_pipe(const std::string& name, const std::vector<std::string>& words,
                       const std::string& text);
// Standard input, output and error are a raw terminal with 24 rows.
Outcome run_on_terminal(const std::string& name, const std::vector<std::string>& words,
                        const Environment& environment = {});

// A program that runs on a terminal until it gets a signal.
class TerminalProgram {
 public:
  TerminalProgram(const std::string& name, const std::vector<std::string>& words,
                  const Environment& environment);
  TerminalProgram(const TerminalProgram&) = delete;
  TerminalProgram& operator=(const TerminalProgram&) = delete;
  ~TerminalProgram();

  // Reads until `text` appears in the output after the last match. Returns false after 20 seconds.
  bool read_until(const std::string& text);
  void signal(int number) const;
  void resize(unsigned short rows, unsigned short columns) const;
  // Reads all remaining output and returns the exit code.
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
