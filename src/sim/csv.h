// sim/csv.h
//
// A strict reader of CSV tables with a header line. Errors name line and column.
//
//   CsvTable table = TRY(CsvTable::open(text, {"name", "gpu"}));
//   while (TRY(table.next())) {
//     table.text(0);
//     TRY(table.integer(1, 0, 64));
//   }
//   // line 7, column 4 (gpu): "x" is not a whole number from 0 to 64
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera::sim {

class CsvTable {
 public:
  // Reads the header and finds the columns by name. They may be in any order; other columns are
  // ignored. `optional_columns` may be missing from the table. Columns are numbered from 0: first
  // `columns`, then `optional_columns`. Returns kInvalid if one of `columns` is missing,
  // or if a column appears twice.
  static Result<CsvTable> open(std::string_view text, const std::vector<std::string_view>& columns,
                               const std::vector<std::string_view>& optional_columns = {});

  // Reads the next row that is not empty. Returns false at the end of the table. Fails if the row
  // does not have as many fields as the header.
  Result<bool> next();

  // Returns a field of the current row. `column` is the number of the column (see open()). A field
  // of a missing optional column is empty.
  [[nodiscard]] const std::string& text(std::size_t column) const;
  [[nodiscard]] Result<std::int64_t> integer(std::size_t column, std::int64_t min, std::int64_t max) const;
  // Accepts decimal numbers like 12 and 0.5, but no exponent, NaN or infinity.
  [[nodiscard]] Result<double> number(std::size_t column, double min, double max) const;

  // Returns an error that names this field.
  [[nodiscard]] Error wrong(std::size_t column, std::string_view why) const;
  [[nodiscard]] std::size_t line() const { return row_line_; }

 private:
  explicit CsvTable(std::string_view text) : rest_(text) {}

  // Reads one record; returns false at the end.
  Result<bool> take_record();
  Status take_field();

  std::string_view rest_;
  std::size_t line_ = 1;      // line number of the start of rest_
  std::size_t row_line_ = 1;  // line number of the start of the row
  std::vector<std::string> fields_;
  std::vector<std::string> header_;
  std::vector<std::optional<std::size_t>> columns_;  // by column number: position in fields_
};

}  // namespace tessera::sim
