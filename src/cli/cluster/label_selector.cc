#include "cli/cluster/label_selector.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/strings.h"

namespace tessera::cli {

namespace {

// Splits at the commas outside of parentheses.
std::vector<std::string_view> split_requirements(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      parts.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    } else {
      depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    }
  }
  return parts;
}

bool is_label_text(std::string_view text) {
  static constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./";
  return text.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace

Result<LabelSelector> LabelSelector::parse(std::string_view text) {
  LabelSelector selector;
  if (trim(text).empty()) {
    return selector;
  }
  selector.text_ = trim(text);
  for (const std::string_view part : split_requirements(text)) {
    selector.all_.push_back(TRY(parse_one(part)));
  }
  return selector;
}

Result<LabelSelector::Requirement> LabelSelector::parse_one(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return Error(ErrorCode::kInvalid,
                 fmt::format("--selector: {} {}; write key=value, key!=value, key in (a,b), key or !key",
                             in_quotes(text), why));
  };
  Requirement one;
  std::vector<std::string_view> values;
  const std::size_t bracket = text.find('(');
  if (const std::size_t equal = text.find('='); equal != std::string_view::npos) {
    const bool negated = equal > 0 && text[equal - 1] == '!';
    const bool doubled = equal + 1 < text.size() && text[equal + 1] == '=';
    one.kind = negated ? Kind::kNotIn : Kind::kIn;
    one.key = trim(text.substr(0, equal - (negated ? 1 : 0)));
    values.push_back(text.substr(equal + (doubled ? 2 : 1)));
  } else if (bracket != std::string_view::npos) {
    const auto words = split_words(text.substr(0, bracket));
    if (words.size() != 2 || (words[1] != "in" && words[1] != "notin") || text.back() != ')') {
      return fail(wrong("has no valid set of values"));
    }
    one.kind = words[1] == "in" ? Kind::kIn : Kind::kNotIn;
    one.key = words[0];
    values = split(text.substr(bracket + 1, text.size() - bracket - 2), ',');
  } else {
    one.kind = text.starts_with('!') ? Kind::kMissing : Kind::kExists;
    one.key = trim(one.kind == Kind::kMissing ? text.substr(1) : text);
  }
  if (one.key.empty() || !is_label_text(one.key)) {
    return fail(wrong("has no valid label key"));
  }
  for (const std::string_view value : values) {
    if (!is_label_text(trim(value))) {
      return fail(wrong("has an invalid label value"));
    }
    one.values.emplace_back(trim(value));
  }
  return one;
}

bool LabelSelector::matches(const std::map<std::string, std::string, std::less<>>& labels) const {
  return std::ranges::all_of(all_, [&](const Requirement& one) {
    const auto found = labels.find(one.key);
    const bool there = found != labels.end();
    const bool among = there && std::ranges::find(one.values, found->second) != one.values.end();
    switch (one.kind) {
      case Kind::kExists:
        return there;
      case Kind::kMissing:
        return !there;
      case Kind::kIn:
        return among;
      case Kind::kNotIn:
        break;
    }
    return !among;  // in Kubernetes, a missing label matches notin
  });
}

}  // namespace tessera::cli
