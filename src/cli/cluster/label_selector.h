// cli/cluster/label_selector.h
//
// Label selectors in kubectl's syntax: "gpushare=true,zone in (a, b),!spot".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera::cli {

class LabelSelector {
 public:
  // Matches everything.
  LabelSelector() = default;

  // Parses requirements separated by commas: key, !key, key=value (also ==), key!=value, key in
  // (a,b), key notin (a,b). The error names the invalid requirement.
  static Result<LabelSelector> parse(std::string_view text);

  // Returns whether `labels` meet all requirements.
  [[nodiscard]] bool matches(const std::map<std::string, std::string, std::less<>>& labels) const;

  // Returns the text that was parsed; "" matches everything.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  enum class Kind { kExists, kMissing, kIn, kNotIn };
  struct Requirement {
    Kind kind{};
    std::string key;
    std::vector<std::string> values;
  };
  static Result<Requirement> parse_one(std::string_view text);

  std::string text_;
  std::vector<Requirement> all_;
};

}  // namespace tessera::cli
