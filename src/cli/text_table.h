// cli/text_table.h
//
// Columns as wide as their widest cell, two spaces apart, nothing behind the last.
//
//   TextTable table;
//   table.add({"POLICY", "SECONDS"});
//   table.add({"fgd", "0.31"});
//   table.print(out);
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace tessera::cli {

class TextTable {
 public:
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void print(std::ostream& out) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tessera::cli
