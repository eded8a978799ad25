// cli/output/table.h
//
// A table for people: each column is as wide as its widest cell, with two spaces between columns
// and no trailing spaces. Control characters in cells are escaped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/output/terminal.h"

namespace tessera::cli {

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

  explicit Table(std::vector<Cell> header) { add(std::move(header)); }

  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] std::string text(const Terminal& terminal) const;

 private:
  std::vector<std::vector<Cell>> rows_;
};

// Returns the number of terminal columns that `text` takes: one per UTF-8 character.
std::size_t display_width(std::string_view text);

}  // namespace tessera::cli
