#include "topology/topo_lines.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace tessera::topology {

namespace {

constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// A line without terminal escapes, and the original column of each byte.
struct PlainLine {
  std::string text;
  std::vector<std::size_t> columns;
};

PlainLine without_escapes(std::string_view line) {
  PlainLine plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      i += 2;
      while (i < line.size() && (line[i] < '@' || line[i] > '~')) {
        ++i;  // skip parameters up to the letter that ends the sequence
      }
      continue;
    }
    plain.text += line[i];
    plain.columns.push_back(i + 1);
  }
  return plain;
}

void add_cell(const PlainLine& line, std::size_t begin, std::size_t end, TopoLine& out) {
  while (begin < end && is_blank(line.text[begin])) {
    ++begin;
  }
  while (end > begin && is_blank(line.text[end - 1])) {
    --end;
  }
  const std::size_t column = begin < line.columns.size() ? line.columns[begin] : out.end_column;
  out.cells.push_back({.text = line.text.substr(begin, end - begin), .column = column});
}

void split_at_tabs(const PlainLine& line, TopoLine& out) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= line.text.size(); ++i) {
    if (i == line.text.size() || line.text[i] == '\t') {
      add_cell(line, begin, i, out);
      begin = i + 1;
    }
  }
}

void split_at_spaces(const PlainLine& line, TopoLine& out) {
  for (std::size_t i = 0; i < line.text.size();) {
    if (is_blank(line.text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < line.text.size() && !is_blank(line.text[end])) {
      ++end;
    }
    add_cell(line, i, end, out);
    i = end;
  }
}

// Joins "CPU", "Affinity" to "CPUAffinity"; also a cell that contains both words.
void join_titles(std::vector<TopoCell>& cells) {
  static constexpr std::array<std::array<std::string_view, 3>, 3> kTitles = {
      {{"CPU", "Affinity", ""}, {"NUMA", "Affinity", ""}, {"GPU", "NUMA", "ID"}}};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    for (const auto& words : kTitles) {
      const std::size_t count = words[2].empty() ? 2 : 3;
      const std::string spaced = count == 2 ? fmt::format("{} {}", words[0], words[1])
                                            : fmt::format("{} {} {}", words[0], words[1], words[2]);
      const std::string joined = fmt::format("{}{}{}", words[0], words[1], words[2]);
      if (cells[i].text == spaced) {
        cells[i].text = joined;
      } else if (i + count <= cells.size() &&
                 std::ranges::all_of(
                     words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count),
                     [&, at = i](std::string_view word) mutable { return cells[at++].text == word; })) {
        cells[i].text = joined;
        const auto next = cells.begin() + static_cast<std::ptrdiff_t>(i) + 1;
        cells.erase(next, next + static_cast<std::ptrdiff_t>(count) - 1);
      }
    }
  }
}

}  // namespace

Error TopoLine::wrong(std::size_t column, std::string_view reason) const {
  return {ErrorCode::kInvalid, fmt::format("line {}, column {}: {}", number, column, reason)};
}

std::vector<TopoLine> topo_lines(std::string_view text) {
  std::vector<TopoLine> lines;
  std::size_t number = 0;
  for (const std::string_view raw : split(text, '\n')) {
    ++number;
    const PlainLine plain = without_escapes(raw);
    const std::string_view trimmed = trim(plain.text);
    if (trimmed.empty() || trimmed.front() == '#' || trimmed.front() == '$') {
      continue;
    }
    TopoLine line{.number = number,
                  .tabs = plain.text.find('\t') != std::string::npos,
                  .cells = {},
                  .end_column = raw.size() + 1};
    if (line.tabs) {
      split_at_tabs(plain, line);
    } else {
      split_at_spaces(plain, line);
    }
    join_titles(line.cells);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace tessera::topology
