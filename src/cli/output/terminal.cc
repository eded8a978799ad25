#include "cli/output/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/strings.h"

namespace tessera::cli {

namespace {

constexpr std::int64_t kBarCells = 16;
constexpr std::string_view kNoColour = "\x1b[0m";

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// As in the C library, the first of these variables that is set decides.
bool has_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = variable(name);
    if (!locale.empty()) {
      return locale.find("UTF-8") != std::string_view::npos || locale.find("utf8") != std::string_view::npos;
    }
  }
  return false;
}

// Returns the value of COLUMNS; 0 if it is not a width. Shells do not export their own COLUMNS, so
// the user has set it, or a program like watch(1) that shows our output on a terminal.
unsigned columns_variable() {
  constexpr std::int64_t kMost = 10'000;
  const std::int64_t columns = parse_int(variable("COLUMNS")).value_or(0);
  return columns > 0 && columns <= kMost ? static_cast<unsigned>(columns) : 0;
}

std::string_view code_of(Colour colour) {
  switch (colour) {
    case Colour::kGreen:
      return "\x1b[32m";
    case Colour::kYellow:
      return "\x1b[33m";
    case Colour::kRed:
      return "\x1b[31m";
    case Colour::kDim:
      return "\x1b[2m";
    case Colour::kNone:
      break;
  }
  return "";
}

}  // namespace

Terminal Terminal::of(int fd) {
  Terminal terminal;
  terminal.is_terminal = ::isatty(fd) == 1;
  terminal.columns = columns_variable();
  if (!terminal.is_terminal) {
    return terminal;
  }
  const std::string_view kind = variable("TERM");
  terminal.colours = !kind.empty() && kind != "dumb" && variable("NO_COLOR").empty();
  terminal.bars = terminal.colours && has_utf8();
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0) {
    terminal.rows = size.ws_row;
    terminal.columns = terminal.columns > 0 ? terminal.columns : size.ws_col;
  }
  return terminal;
}

std::string coloured(std::string_view text, Colour colour, const Terminal& terminal) {
  if (!terminal.colours || colour == Colour::kNone || text.empty()) {
    return std::string(text);
  }
  return std::string(code_of(colour)).append(text).append(kNoColour);
}

std::size_t colour_sequence(std::string_view text) {
  for (const Colour colour : {Colour::kGreen, Colour::kYellow, Colour::kRed, Colour::kDim}) {
    if (text.starts_with(code_of(colour))) {
      return code_of(colour).size();
    }
  }
  return text.starts_with(kNoColour) ? kNoColour.size() : 0;
}

std::string bar(std::int64_t used, std::int64_t total, const Terminal& terminal) {
  if (!terminal.bars) {
    return "";
  }
  const double part = total <= 0 ? 0 : static_cast<double>(used) / static_cast<double>(total);
  auto full = static_cast<std::int64_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(kBarCells));
  full = used > 0 ? std::max<std::int64_t>(full, 1) : full;  // show one cell for any use at all
  std::string text;
  for (std::int64_t i = 0; i < kBarCells; ++i) {
    text += i < full ? "█" : "░";
  }
  return text;
}

Colour load_colour(std::int64_t used, std::int64_t total) {
  if (used > total) {
    return Colour::kRed;
  }
  return used > 0 && used >= total / 4 * 3 ? Colour::kYellow : Colour::kGreen;
}

}  // namespace tessera::cli
