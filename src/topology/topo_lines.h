// topology/topo_lines.h
//
// Splits the text of `nvidia-smi topo -m` into lines and cells. Handles tabs, spaces and terminal
// escapes; topo_text.cc interprets the cells.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tessera::topology {

struct TopoCell {
  std::string text;        // without surrounding white space
  std::size_t column = 1;  // column in the original line, in bytes, starting at 1
};

struct TopoLine {
  std::size_t number = 1;
  bool tabs = false;  // true: separated by tabs, cells may be blank; false: separated by spaces
  std::vector<TopoCell> cells;
  std::size_t end_column = 1;  // just after the last byte

  // Returns the error "line 5, column 12: <reason>".
  [[nodiscard]] Error wrong(std::size_t column, std::string_view reason) const;
  [[nodiscard]] Error wrong(const TopoCell& cell, std::string_view reason) const {
    return wrong(cell.column, reason);
  }
};

// Returns all non-blank lines except comments (# ...) and shell prompts ($ ...). Titles of several
// words (CPU Affinity, NUMA Affinity, GPU NUMA ID) become one cell without spaces.
std::vector<TopoLine> topo_lines(std::string_view text);

}  // namespace tessera::topology
