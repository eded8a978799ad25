// topology/topo_lines.h
//
// The lines and cells of `nvidia-smi topo -m` text, for topo_text.cc: knows tabs, spaces and terminal
// escapes, but not what a cell means.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tessera::topology {

struct TopoCell {
  std::string text;        // without the white space around it
  std::size_t column = 1;  // where it stands in the line as it came, in bytes from 1
};

struct TopoLine {
  std::size_t number = 1;
  bool tabs = false;  // cells are separated by tabs and may be blank; else by spaces and may not
  std::vector<TopoCell> cells;
  std::size_t end_column = 1;  // just after the last byte

  // "line 5, column 12: <why>".
  [[nodiscard]] Error wrong(std::size_t column, std::string_view why) const;
  [[nodiscard]] Error wrong(const TopoCell& cell, std::string_view why) const {
    return wrong(cell.column, why);
  }
};

// All lines that hold anything, without comments (# ...) and shell prompts ($ ...). Titles of several words
// (CPU Affinity, NUMA Affinity, GPU NUMA ID) are one cell without spaces, however they came.
std::vector<TopoLine> topo_lines(std::string_view text);

}  // namespace tessera::topology
