// sim/csv.h
//
// Tables with a header line, read strictly: a fault is named by line and column.
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
  // Finds the columns by name, in any order among others. Those of `optional_columns` may be missing and
  // are numbered behind the others.
  static Result<CsvTable> open(std::string_view text, const std::vector<std::string_view>& columns,
                               const std::vector<std::string_view>& optional_columns = {});

  // Goes to the next row that is not empty; false at the end. Every row has as many fields as the header.
  Result<bool> next();

  // Fields of the row; `column` counts the names given to open(). A missing optional column is empty.
  [[nodiscard]] const std::string& text(std::size_t column) const;
  [[nodiscard]] Result<std::int64_t> integer(std::size_t column, std::int64_t min, std::int64_t max) const;

  // An error that names this field.
  [[nodiscard]] Error wrong(std::size_t column, std::string_view why) const;
  [[nodiscard]] std::size_t line() const { return row_line_; }

 private:
  explicit CsvTable(std::string_view text) : rest_(text) {}

  // Takes one record off the text; false at the end.
  Result<bool> take_record();
  Status take_field();

  std::string_view rest_;
  std::size_t line_ = 1;      // where rest_ begins
  std::size_t row_line_ = 1;  // where the row begins
  std::vector<std::string> fields_;
  std::vector<std::string> header_;
  std::vector<std::optional<std::size_t>> columns_;  // in fields_
};

}  // namespace tessera::sim
