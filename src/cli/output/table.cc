#include "cli/output/table.h"

#include <algorithm>

#include "cli/output/safe_output.h"

namespace tessera::cli {

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

Table::Cell::Cell(std::string_view cell_text, Colour cell_colour)
    : text(printable(cell_text)), colour(cell_colour) {}

std::string Table::text(const Terminal& terminal) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i].text));
    }
  }
  std::string out;
  for (const auto& row : rows_) {
    std::size_t last = row.size();
    while (last > 0 && row[last - 1].text.empty()) {
      --last;
    }
    for (std::size_t i = 0; i < last; ++i) {
      out += coloured(row[i].text, row[i].colour, terminal);
      if (i + 1 < last) {
        out.append(widths[i] - display_width(row[i].text) + 2, ' ');
      }
    }
    out += '\n';
  }
  return out;
}

}  // namespace tessera::cli
