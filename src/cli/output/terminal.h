// cli/output/terminal.h
//
// The abilities of the output device: colours, bars and its size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::cli {

struct Terminal {
  bool is_terminal = false;
  bool colours = false;  // escape sequences; off in a pipe, with NO_COLOR and on a dumb terminal
  bool bars = false;     // block characters; only if `colours` is set and the locale is UTF-8
  unsigned rows = 0;     // 0: unknown
  unsigned columns = 0;  // 0: unknown, or any width, as in a pipe. The variable COLUMNS takes precedence

  // Returns the terminal, with unlimited width if the user asked for the output format `wide`.
  [[nodiscard]] Terminal for_output(std::string_view output) const {
    Terminal terminal = *this;
    terminal.columns = output == "wide" ? 0 : columns;
    return terminal;
  }

  // Returns the current state of the file descriptor.
  static Terminal of(int fd);
};

enum class Colour { kNone, kGreen, kYellow, kRed, kDim };

// Returns `text` in the colour, or unchanged if `terminal` has no colours.
std::string coloured(std::string_view text, Colour colour, const Terminal& terminal);

// Returns the length of the sequence of coloured() at the start of `text`; 0 if there is none.
std::size_t colour_sequence(std::string_view text);

// Returns a bar like "████████░░░░░░░░" that shows how much of `total` is used. Returns "" if
// `terminal` has no bars.
std::string bar(std::int64_t used, std::int64_t total, const Terminal& terminal);

// Returns green below 75 %, yellow from 75 % to 100 %, red if more is used than `total`.
Colour load_colour(std::int64_t used, std::int64_t total);

}  // namespace tessera::cli
