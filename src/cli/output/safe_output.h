// cli/output/safe_output.h
//
// Keeps text from the cluster from controlling the terminal.
//
// Names, models and reasons come from annotations, which a compromised node or a tenant may have
// written. A terminal executes control characters in them: an escape sequence can hide lines, forge
// output or change the title. cli::run() wraps standard output and error in a SafeOutput, so no
// command has to escape anything. Table escapes its cells in addition, because a line break in a
// cell could forge a row.
//
// JSON keeps its meaning, because JSON strings may contain these escapes.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace tessera::cli {

// Returns `text` with control characters as \u001b and the like: C0, DEL, C1, and the characters
// that change the direction of text or break lines. Bytes that are not UTF-8 become U+FFFD.
std::string printable(std::string_view text);

// Like printable(), for text with several lines: keeps line breaks, tabs and the sequences of
// coloured().
std::string printable_lines(std::string_view text);

// Applies printable_lines() to everything that is written to `stream`, until this object is destroyed.
class SafeOutput : public std::streambuf {
 public:
  explicit SafeOutput(std::ostream& stream);
  SafeOutput(const SafeOutput&) = delete;
  SafeOutput& operator=(const SafeOutput&) = delete;
  ~SafeOutput() override;

  // Returns the errno of the first write that failed, for example because the disk is full; 0 if
  // none failed. Flush the stream first.
  [[nodiscard]] int error() const { return error_; }

 private:
  friend void write_control(std::ostream& stream, std::string_view text);

  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int_type overflow(int_type symbol) override;
  int sync() override;
  bool write(std::string_view text);
  void note_error();

  std::ostream& stream_;
  std::streambuf* target_;
  std::string held_;  // the start of a character whose other bytes were not written yet
  int error_ = 0;
};

// Writes text with control sequences of our own, past the SafeOutput of the stream. The caller must
// pass all other parts of `text` through printable_lines().
void write_control(std::ostream& stream, std::string_view text);

}  // namespace tessera::cli
