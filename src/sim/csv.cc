#include "sim/csv.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/nearest_name.h"
#include "base/strings.h"

namespace tessera::sim {

namespace {

constexpr std::size_t kMostColumns = 256;
constexpr std::size_t kMostShown = 10;  // columns in an error
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kGzip = "\x1F\x8B";

// Returns the error for a header without the required column `name`: with the columns that it has,
// and with the one of them that probably is meant.
std::string missing_column(std::string_view name, const std::vector<std::string>& header,
                           const std::vector<std::string_view>& known) {
  if (header.size() == 1 && header.front().find_first_of(";\t|") != std::string::npos) {
    return fmt::format("line 1: there is no column {}; columns are separated by commas", name);
  }
  std::vector<std::string> shown;
  std::vector<std::string_view> unknown;
  for (const std::string& column : header) {
    if (shown.size() < kMostShown) {
      shown.push_back(in_quotes(column, kMostNameBytes));
    }
    if (std::ranges::find(known, column) == known.end()) {
      unknown.push_back(column);
    }
  }
  if (header.size() > shown.size()) {
    shown.push_back(fmt::format("{} more", header.size() - shown.size()));
  }
  auto meant = nearest_name(name, unknown);
  for (const std::string_view column : unknown) {
    // "memory" for "memory_mib" has more edits than nearest_name() accepts.
    if (!meant && !column.empty() && (name.starts_with(column) || column.starts_with(name))) {
      meant = column;
    }
  }
  return fmt::format("line 1: there is no column {}; the columns are {}{}", name, join_words(shown),
                     meant ? fmt::format("; did you mean {} instead of {}?", name, in_quotes(*meant)) : "");
}

}  // namespace

Result<CsvTable> CsvTable::open(std::string_view text, const std::vector<std::string_view>& columns,
                                const std::vector<std::string_view>& optional_columns) {
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  if (text.starts_with(kGzip)) {
    return fail(ErrorCode::kInvalid, "is compressed; unpack it with gunzip first");
  }
  CsvTable table(text);
  if (!TRY(table.take_record())) {
    return fail(ErrorCode::kInvalid, "is empty; its first line must name the columns");
  }
  table.header_ = std::move(table.fields_);
  for (std::string& name : table.header_) {
    name = std::string(trim(name));
  }
  std::vector<std::string_view> known = columns;
  known.insert(known.end(), optional_columns.begin(), optional_columns.end());
  for (std::size_t i = 0; i < known.size(); ++i) {
    const auto found = std::ranges::find(table.header_, known[i]);
    if (found == table.header_.end()) {
      if (i < columns.size()) {
        return fail(ErrorCode::kInvalid, missing_column(known[i], table.header_, known));
      }
      table.columns_.emplace_back();
      continue;
    }
    if (std::find(found + 1, table.header_.end(), known[i]) != table.header_.end()) {
      return fail(ErrorCode::kInvalid, fmt::format("line 1: there are two columns {}", known[i]));
    }
    table.columns_.emplace_back(static_cast<std::size_t>(found - table.header_.begin()));
  }
  return table;
}

Result<bool> CsvTable::next() {
  do {
    if (!TRY(take_record())) {
      return false;
    }
  } while (fields_.size() == 1 && trim(fields_.front()).empty() && header_.size() > 1);
  if (fields_.size() != header_.size()) {
    return fail(ErrorCode::kInvalid, fmt::format("line {}: has {} fields, but the first line has {}",
                                                 row_line_, fields_.size(), header_.size()));
  }
  return true;
}

Result<bool> CsvTable::take_record() {
  fields_.clear();
  row_line_ = line_;
  if (rest_.empty()) {
    return false;
  }
  for (;;) {
    if (fields_.size() == kMostColumns) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("line {}: has more than {} fields", row_line_, kMostColumns));
    }
    TRY(take_field());
    if (rest_.empty()) {
      return true;
    }
    const char end = rest_.front();
    rest_.remove_prefix(1);
    if (end == '\n') {
      ++line_;
      return true;
    }
  }
}

// Reads one field. Does not consume the comma or line feed after it.
Status CsvTable::take_field() {
  std::string& field = fields_.emplace_back();
  if (!rest_.starts_with('"')) {
    const std::size_t end = std::min(rest_.find_first_of(",\n"), rest_.size());
    field = rest_.substr(0, end);
    if (field.ends_with('\r')) {
      field.pop_back();
    }
    rest_.remove_prefix(end);
    return {};
  }
  for (std::size_t i = 1; i < rest_.size(); ++i) {
    if (rest_[i] != '"') {
      line_ += rest_[i] == '\n' ? 1 : 0;
      field += rest_[i];
    } else if (i + 1 < rest_.size() && rest_[i + 1] == '"') {
      field += '"';
      ++i;
    } else {
      rest_.remove_prefix(i + 1);
      if (rest_.starts_with("\r\n") || rest_ == "\r") {
        rest_.remove_prefix(1);
      }
      if (!rest_.empty() && rest_.front() != ',' && rest_.front() != '\n') {
        return fail(ErrorCode::kInvalid, fmt::format("line {}, column {}: text follows the closing quote",
                                                     row_line_, fields_.size()));
      }
      return {};
    }
  }
  return fail(ErrorCode::kInvalid,
              fmt::format("line {}, column {}: the quote is never closed", row_line_, fields_.size()));
}

const std::string& CsvTable::text(std::size_t column) const {
  static const std::string kNothing;
  return columns_[column] ? fields_[*columns_[column]] : kNothing;
}

Result<std::int64_t> CsvTable::integer(std::size_t column, std::int64_t min, std::int64_t max) const {
  const auto value = parse_int(trim(text(column)));
  if (!value || *value < min || *value > max) {
    return fail(wrong(
        column, fmt::format("{} is not a whole number from {} to {}", in_quotes(text(column)), min, max)));
  }
  return *value;
}

Result<double> CsvTable::number(std::size_t column, double min, double max) const {
  const std::string_view digits = trim(text(column));
  double value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
  const bool in_range = value >= min && value <= max;  // NaN is in no range
  if (error != std::errc() || end != digits.data() + digits.size() || !in_range) {
    return fail(
        wrong(column, fmt::format("{} is not a number from {} to {}", in_quotes(text(column)), min, max)));
  }
  return value;
}

Error CsvTable::wrong(std::size_t column, std::string_view why) const {
  const std::size_t position = columns_[column].value_or(0);
  return {ErrorCode::kInvalid,
          fmt::format("line {}, column {} ({}): {}", row_line_, position + 1, header_[position], why)};
}

}  // namespace tessera::sim
