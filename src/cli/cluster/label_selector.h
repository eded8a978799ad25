// cli/cluster/label_selector.h
//
// Label selectors as kubectl takes them: "gpushare=true,zone in (a, b),!spot".
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

  // key, !key, key=value (also ==), key!=value, key in (a,b), key notin (a,b); all of them must hold. The
  // error names the part that makes no sense.
  static Result<LabelSelector> parse(std::string_view text);

  [[nodiscard]] bool matches(const std::map<std::string, std::string, std::less<>>& labels) const;

 private:
  enum class Kind { kExists, kMissing, kIn, kNotIn };
  struct Requirement {
    Kind kind{};
    std::string key;
    std::vector<std::string> values;
  };
  static Result<Requirement> parse_one(std::string_view text);

  std::vector<Requirement> all_;
};

}  // namespace tessera::cli
