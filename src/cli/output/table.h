// cli/output/table.h
//
// A table for people: each column is as wide as its widest cell, with two spaces between columns
// and no trailing spaces. Control characters in cells are escaped. On a terminal that is too narrow
// the table adapts in the order that `Narrow` states, so that no line is wider than the terminal.
//
//   Table table({"NODE", "FREE", "FITS WHEN"}, {.drop = {"FREE"}, .wrap_last = true});
//   table.add({"gpu-a", "5 GiB", "ml/notebook (11 GiB) ends"});
//   out << table.text(terminal);
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output/terminal.h"

namespace tessera::cli {

// How a table becomes narrower. Each step is applied only as far as needed:
//   1. use the short headers,
//   2. drop columns, the first in `drop` first,
//   3. break the last column between words, and continue it below,
//   4. shorten long cells of the columns in `shorten`, in their middle,
//   5. continue the remaining columns in another table below, with the columns in `keys` repeated;
//      break cells that are still too wide.
struct Narrow {
  std::vector<std::pair<std::string_view, std::string_view>> short_headers{};
  std::vector<std::string_view> drop{};  // headers of columns that people can do without
  bool wrap_last = false;                // the last column has sentences
  std::vector<std::string_view> shorten{};
  std::vector<std::string_view> keys{};  // columns that identify a row; empty: the first column
};

class Table {
 public:
  struct Cell {
    std::string text;
    Colour colour = Colour::kNone;

    // Implicit, so that rows are lists of strings.
    Cell(std::string_view cell_text, Colour cell_colour = Colour::kNone);   // NOLINT
    Cell(const std::string& cell_text, Colour cell_colour = Colour::kNone)  // NOLINT
        : Cell(std::string_view(cell_text), cell_colour) {}
    Cell(const char* cell_text, Colour cell_colour = Colour::kNone)  // NOLINT
        : Cell(std::string_view(cell_text), cell_colour) {}
  };

  explicit Table(std::vector<Cell> header, Narrow narrow = {}) : narrow_(std::move(narrow)) {
    add(std::move(header));
  }

  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] std::string text(const Terminal& terminal) const;

 private:
  std::vector<std::vector<Cell>> rows_;  // the first row is the header
  Narrow narrow_;
};

// Returns the number of terminal columns that `text` takes: one per UTF-8 character.
std::size_t display_width(std::string_view text);

// Returns the lines of `text`, broken between words so that none is wider than `columns` (0: not
// broken). A word that is too long for a line is broken anywhere. Existing line breaks are kept.
std::vector<std::string> wrapped_lines(std::string_view text, std::size_t columns);

// Returns prose for the terminal: wrapped_lines() at the terminal's width, each line in `colour`
// and ended by a newline.
std::string prose(std::string_view text, const Terminal& terminal, Colour colour = Colour::kNone);

// Returns `text`, with characters in its middle replaced by "..." if it is wider than `columns`.
std::string shortened(std::string_view text, std::size_t columns);

}  // namespace tessera::cli
