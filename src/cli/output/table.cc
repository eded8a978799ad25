#include "cli/output/table.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "cli/output/safe_output.h"

namespace tessera::cli {

namespace {

using Rows = std::vector<std::vector<Table::Cell>>;

constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastWrapped = 24;  // a narrower column of sentences is hard to read
constexpr std::size_t kLeastShortened = 12;
constexpr std::size_t kLeastKey = 8;         // of a column that identifies rows
constexpr std::size_t kLeastBesideKey = 16;  // of the other columns of a block

// Returns the first `columns` characters of `text`.
std::string_view first_characters(std::string_view text, std::size_t columns) {
  std::size_t bytes = 0;
  for (; bytes < text.size() && columns > 0; --columns) {
    ++bytes;
    while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U) {
      ++bytes;
    }
  }
  return text.substr(0, bytes);
}

std::vector<std::size_t> widths_of(const Rows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i].text));
    }
  }
  return widths;
}

std::size_t total_of(const std::vector<std::size_t>& widths) {
  return widths.empty() ? 0 : std::reduce(widths.begin(), widths.end()) + kGap * (widths.size() - 1);
}

std::size_t total_width(const Rows& rows) {
  return total_of(widths_of(rows));
}

// Returns the position of the column with this header; the number of columns if there is none.
std::size_t column_of(const Rows& rows, std::string_view header) {
  return static_cast<std::size_t>(std::ranges::find(rows.front(), header, &Table::Cell::text) -
                                  rows.front().begin());
}

void drop_column(Rows& rows, std::size_t column) {
  for (auto& row : rows) {
    if (column < row.size()) {
      row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
    }
  }
}

// Returns the position of the column that has this header, or the short form of it.
std::size_t column_of(const Rows& rows, const Narrow& narrow, std::string_view header) {
  const auto named =
      std::ranges::find(narrow.short_headers, header, &std::pair<std::string_view, std::string_view>::first);
  const std::size_t column = column_of(rows, header);
  return named == narrow.short_headers.end() ? column : std::min(column, column_of(rows, named->second));
}

// Breaks cells that are wider than the limit of their column (0: no limit). Each further line
// becomes a row, in which cells without more lines are empty.
Rows wrapped(const Rows& rows, const std::vector<std::size_t>& limits) {
  Rows all;
  for (const auto& row : rows) {
    std::vector<std::vector<std::string>> lines;
    std::size_t height = 1;
    for (std::size_t i = 0; i < row.size(); ++i) {
      lines.push_back(wrapped_lines(row[i].text, limits[i]));
      height = std::max(height, lines.back().size());
    }
    for (std::size_t line = 0; line < height; ++line) {
      std::vector<Table::Cell> next;
      for (std::size_t i = 0; i < row.size(); ++i) {
        next.emplace_back(line < lines[i].size() ? lines[i][line] : std::string(), row[i].colour);
      }
      all.push_back(std::move(next));
    }
  }
  return all;
}

// Makes the table fit, as far as columns need not be continued below.
void make_narrower(Rows& rows, const Narrow& narrow, std::size_t columns) {
  if (total_width(rows) > columns) {
    for (const auto& [header, brief] : narrow.short_headers) {
      if (const std::size_t column = column_of(rows, header); column < rows.front().size()) {
        rows.front()[column].text = brief;
      }
    }
  }
  // A column of sentences needs only some room, so no other column is dropped for more.
  const auto needed = [&] {
    std::vector<std::size_t> widths = widths_of(rows);
    if (narrow.wrap_last && !widths.empty()) {
      widths.back() = std::min(widths.back(), kLeastWrapped);
    }
    return total_of(widths);
  };
  for (const std::string_view header : narrow.drop) {
    const std::size_t column = column_of(rows, narrow, header);
    if (needed() > columns && column < rows.front().size()) {
      drop_column(rows, column);
    }
  }
  for (const std::string_view header : narrow.shorten) {
    const std::size_t column = column_of(rows, header);
    if (needed() <= columns || column >= rows.front().size()) {
      continue;
    }
    const std::size_t over = needed() - columns;
    const std::size_t width = widths_of(rows)[column];
    const std::size_t target = std::max(width > over ? width - over : 0, kLeastShortened);
    for (auto& row : rows) {
      if (column < row.size()) {
        row[column].text = shortened(row[column].text, target);
      }
    }
  }
  if (const std::size_t total = total_width(rows);
      narrow.wrap_last && total > columns && needed() <= columns) {
    std::vector<std::size_t> limits = widths_of(rows);
    limits.back() -= total - columns;
    rows = wrapped(rows, limits);
  }
}

void print(const Rows& rows, const Terminal& terminal, std::string& out) {
  const std::vector<std::size_t> widths = widths_of(rows);
  for (const auto& row : rows) {
    std::size_t last = row.size();
    while (last > 0 && row[last - 1].text.empty()) {
      --last;
    }
    for (std::size_t i = 0; i < last; ++i) {
      out += coloured(row[i].text, row[i].colour, terminal);
      if (i + 1 < last) {
        out.append(widths[i] - display_width(row[i].text) + kGap, ' ');
      }
    }
    out += '\n';
  }
}

// A part of the columns, each with its largest width.
struct Block {
  std::vector<std::size_t> columns{};
  std::vector<std::size_t> limits{};

  [[nodiscard]] Rows of(const Rows& rows) const {
    Rows part;
    for (const auto& row : rows) {
      std::vector<Table::Cell> cells;
      for (const std::size_t column : columns) {
        cells.push_back(column < row.size() ? row[column] : Table::Cell(""));
      }
      part.push_back(std::move(cells));
    }
    return wrapped(part, limits);
  }
};

// Returns the columns that identify a row. They become narrower as needed to leave some room for
// another column.
Block key_block(const Rows& rows, const Narrow& narrow, std::size_t columns) {
  const std::vector<std::size_t> widths = widths_of(rows);
  Block block;
  for (const std::string_view header : narrow.keys) {
    if (const std::size_t column = column_of(rows, narrow, header); column < widths.size()) {
      block.columns.push_back(column);
    }
  }
  if (block.columns.empty()) {
    block.columns.push_back(0);
  }
  for (const std::size_t column : block.columns) {
    block.limits.push_back(widths[column]);
  }
  for (auto widest = std::ranges::max_element(block.limits);
       *widest > kLeastKey && total_of(block.limits) + kGap + kLeastBesideKey > columns;
       widest = std::ranges::max_element(block.limits)) {
    --*widest;
  }
  return block;
}

// Prints the table in blocks, each with the key columns and as many others as fit.
void print_blocks(const Rows& rows, const Narrow& narrow, const Terminal& terminal, std::string& out) {
  const std::vector<std::size_t> widths = widths_of(rows);
  const Block keys = key_block(rows, narrow, terminal.columns);
  std::vector<Block> blocks{keys};
  for (std::size_t column = 0; column < widths.size(); ++column) {
    if (std::ranges::find(keys.columns, column) != keys.columns.end()) {
      continue;
    }
    const bool sentences = narrow.wrap_last && column + 1 == widths.size();
    const std::size_t least = sentences ? std::min(widths[column], kLeastWrapped) : widths[column];
    if (blocks.back().columns.size() > keys.columns.size() &&
        total_of(blocks.back().limits) + kGap + least > terminal.columns) {
      blocks.push_back(keys);
    }
    const std::size_t used = total_of(blocks.back().limits) + kGap;
    blocks.back().columns.push_back(column);
    blocks.back().limits.push_back(
        std::min(widths[column], terminal.columns > used ? terminal.columns - used : 1));
  }
  for (const Block& block : blocks) {
    out += &block == &blocks.front() ? "" : "\n";
    print(block.of(rows), terminal, out);
  }
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::vector<std::string> wrapped_lines(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  for (const std::string_view paragraph : split(text, '\n')) {
    if (columns == 0 || display_width(paragraph) <= columns) {
      lines.emplace_back(paragraph);
      continue;
    }
    std::string line;
    std::size_t width = 0;
    for (std::string_view word : split(paragraph, ' ')) {
      if (!line.empty() && width + 1 + display_width(word) > columns) {
        lines.push_back(std::exchange(line, {}));
        width = 0;
      }
      while (display_width(word) > columns) {
        const std::string_view part = first_characters(word, columns);
        lines.emplace_back(part);
        word.remove_prefix(part.size());
      }
      width += display_width(word) + (line.empty() ? 0 : 1);
      line.append(line.empty() ? "" : " ").append(word);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string prose(std::string_view text, const Terminal& terminal, Colour colour) {
  std::string out;
  for (const std::string& line : wrapped_lines(text, terminal.columns)) {
    out += coloured(line, colour, terminal) + "\n";
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t columns) {
  constexpr std::string_view kMark = "...";
  const std::size_t width = display_width(text);
  if (width <= columns || columns <= kMark.size()) {
    return std::string(text);
  }
  const std::size_t kept = columns - kMark.size();
  const std::string_view head = first_characters(text, kept - kept / 2);
  const std::string_view before_tail = first_characters(text, width - kept / 2);
  return std::string(head).append(kMark).append(text.substr(before_tail.size()));
}

Table::Cell::Cell(std::string_view cell_text, Colour cell_colour)
    : text(printable(cell_text)), colour(cell_colour) {}

std::string Table::text(const Terminal& terminal) const {
  std::string out;
  if (terminal.columns == 0 || total_width(rows_) <= terminal.columns) {
    print(rows_, terminal, out);
    return out;
  }
  Rows rows = rows_;
  make_narrower(rows, narrow_, terminal.columns);
  if (total_width(rows) <= terminal.columns) {
    print(rows, terminal, out);
  } else {
    print_blocks(rows, narrow_, terminal, out);
  }
  return out;
}

}  // namespace tessera::cli
