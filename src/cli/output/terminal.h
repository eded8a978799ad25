// cli/output/terminal.h
//
// What may be written to where the output goes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::cli {

struct Terminal {
  bool is_terminal = false;
  bool colours = false;  // escape sequences; never through a pipe, with NO_COLOR or on a dumb terminal
  bool bars = false;     // block characters, beside colours only
  unsigned rows = 0;     // 0: not known

  // Of a file descriptor, as it is now.
  static Terminal of(int fd);
};

enum class Colour { kNone, kGreen, kYellow, kRed, kDim };

// `text` in a colour, if `terminal` has any.
std::string coloured(std::string_view text, Colour colour, const Terminal& terminal);

// "████████░░░░░░░░": how much of `total` is used. Empty where there are no bars.
std::string bar(std::int64_t used, std::int64_t total, const Terminal& terminal);

// Green, yellow from 75 % on, red beyond all there is.
Colour load_colour(std::int64_t used, std::int64_t total);

}  // namespace tessera::cli
