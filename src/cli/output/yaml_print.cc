#include "cli/output/yaml_print.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <string_view>

#include "cli/output/json_print.h"
#include "cli/output/safe_output.h"

namespace tessera::cli {

namespace json = boost::json;

namespace {

// Returns whether every version of YAML reads `text` as this string without quotes: a word that is
// not a number, a boolean or null.
bool is_plain(std::string_view text) {
  static constexpr std::string_view kFirst = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  static constexpr std::string_view kMore =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./";
  static constexpr std::array<std::string_view, 9> kOther = {"true", "false", "yes", "no", "on",
                                                             "off",  "null",  "y",   "n"};
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return !text.empty() && kFirst.find(text.front()) != std::string_view::npos &&
         text.find_first_not_of(kMore) == std::string_view::npos &&
         std::ranges::find(kOther, lower) == kOther.end();
}

std::string scalar(std::string_view text) {
  if (is_plain(text)) {
    return std::string(text);
  }
  if (printable(text) != text) {
    return json::serialize(json::string(text.data(), text.size()));  // YAML accepts JSON's escapes
  }
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? "''" : std::string(1, c);
  }
  return quoted + "'";
}

class Printer {
 public:
  void print(const json::value& value, std::size_t indent) {
    if (const json::object* object = value.if_object(); object != nullptr && !object->empty()) {
      for (const auto& entry : *object) {
        begin_line(indent);
        text_ += scalar({entry.key().data(), entry.key().size()}) + ":";
        print_nested(entry.value(), indent + 2);
      }
    } else if (const json::array* array = value.if_array(); array != nullptr && !array->empty()) {
      for (const json::value& entry : *array) {
        begin_line(indent);
        text_ += "-";
        if (is_block(entry)) {
          text_ += " ";
          inline_first_ = true;
          print(entry, indent + 2);
        } else {
          print_nested(entry, indent + 2);
        }
      }
    } else {
      text_ += flow(value) + "\n";
    }
  }
  std::string text() && { return std::move(text_); }

 private:
  static bool is_block(const json::value& value) {
    return (value.is_object() && !value.get_object().empty()) ||
           (value.is_array() && !value.get_array().empty());
  }

  // The first line of a list entry follows its dash on the same line.
  void begin_line(std::size_t indent) {
    if (!inline_first_) {
      text_.append(indent, ' ');
    }
    inline_first_ = false;
  }

  void print_nested(const json::value& value, std::size_t indent) {
    if (is_block(value)) {
      text_ += "\n";
      print(value, indent);
    } else {
      text_ += " " + flow(value) + "\n";
    }
  }

  static std::string flow(const json::value& value) {
    if (value.is_string()) {
      return scalar({value.get_string().data(), value.get_string().size()});
    }
    return compact_json(value);  // numbers, booleans, null, {} and []
  }

  std::string text_;
  bool inline_first_ = false;
};

}  // namespace

std::string yaml_text(const json::value& value) {
  Printer printer;
  printer.print(value, 0);
  return std::move(printer).text();
}

}  // namespace tessera::cli
