#include "cli/output/tabbed_text.h"

#include <algorithm>
#include <vector>

#include "base/strings.h"

namespace tessera::cli {

namespace {

std::size_t width_of(std::string_view cell) {
  return static_cast<std::size_t>(
      std::ranges::count_if(cell, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

using Line = std::vector<std::string_view>;  // cells; no tab follows the last one

// Returns the first line at or after `begin` that has no column `column`.
std::size_t end_of_run(const std::vector<Line>& lines, std::size_t begin, std::size_t column) {
  std::size_t end = begin;
  while (end < lines.size() && column + 1 < lines[end].size()) {
    ++end;
  }
  return end;
}

}  // namespace

std::string tabbed_text(std::string_view text, std::size_t padding) {
  std::vector<Line> lines;
  std::size_t columns = 0;
  for (const std::string_view line : split(text, '\n')) {
    lines.push_back(split(line, '\t'));
    columns = std::max(columns, lines.back().size() - 1);
  }
  std::vector<std::vector<std::size_t>> widths(lines.size());
  for (std::size_t column = 0; column < columns; ++column) {
    for (std::size_t begin = 0; begin < lines.size();) {
      const std::size_t end = end_of_run(lines, begin, column);
      std::size_t widest = 0;
      for (std::size_t i = begin; i < end; ++i) {
        widest = std::max(widest, width_of(lines[i][column]));
      }
      for (std::size_t i = begin; i < end; ++i) {
        widths[i].push_back(widest + padding);
      }
      begin = std::max(end, begin + 1);
    }
  }
  std::string out;
  out.reserve(text.size() * 2);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (std::size_t column = 0; column + 1 < lines[i].size(); ++column) {
      out += lines[i][column];
      out.append(widths[i][column] - width_of(lines[i][column]), ' ');
    }
    out += lines[i].back();
    if (i + 1 < lines.size()) {
      out += '\n';
    }
  }
  return out;
}

}  // namespace tessera::cli
