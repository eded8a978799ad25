#include "cli/output/json_print.h"

#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>

namespace tessera::cli {

namespace {

namespace json = boost::json;

constexpr double kSmallestPlain = 1e-6;
constexpr double kFirstWithExponent = 1e21;

class Printer {
 public:
  explicit Printer(bool pretty) : pretty_(pretty) {}

  void print(const json::value& value, std::size_t depth) {
    if (const json::object* object = value.if_object(); object != nullptr) {
      print_list('{', '}', *object, depth, [&](const auto& field) {
        out_ += json::serialize(json::value(field.key())) + (pretty_ ? ": " : ":");
        print(field.value(), depth + 1);
      });
    } else if (const json::array* array = value.if_array(); array != nullptr) {
      print_list('[', ']', *array, depth, [&](const json::value& one) { print(one, depth + 1); });
    } else if (const double* number = value.if_double(); number != nullptr) {
      out_ += number_text(*number);
    } else {
      out_ += json::serialize(value);
    }
  }
  std::string text() && { return std::move(out_); }

 private:
  template <class List, class PrintOne>
  void print_list(char open, char close, const List& list, std::size_t depth, const PrintOne& print_one) {
    out_ += open;
    bool first = true;
    for (const auto& one : list) {
      out_ += first ? "" : ",";
      first = false;
      begin_line(depth + 1);
      print_one(one);
    }
    if (!list.empty()) {
      begin_line(depth);
    }
    out_ += close;
  }

  void begin_line(std::size_t depth) {
    if (pretty_) {
      out_ += '\n';
      out_.append(depth * 4, ' ');
    }
  }

  bool pretty_;
  std::string out_;
};

}  // namespace

std::string number_text(double number) {
  if (!std::isfinite(number)) {
    return "null";
  }
  const double size = std::abs(number);
  if (size == 0) {
    return "0";
  }
  const bool plain = size >= kSmallestPlain && size < kFirstWithExponent;
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(digits.data(), end.ptr);
  // YAML 1.1 reads a number with an exponent as text if it has no point.
  if (!plain && text.find('.') == std::string::npos) {
    text.insert(text.find('e'), ".0");
  }
  return text;
}

std::string pretty_json(const boost::json::value& value) {
  Printer printer(true);
  printer.print(value, 0);
  return std::move(printer).text() + "\n";
}

std::string compact_json(const boost::json::value& value) {
  Printer printer(false);
  printer.print(value, 0);
  return std::move(printer).text();
}

}  // namespace tessera::cli
