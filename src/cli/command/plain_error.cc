#include "cli/command/plain_error.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "base/nearest_name.h"
#include "base/strings.h"

namespace tessera::cli {

namespace {

std::optional<double> number_of(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// Returns "100" for "100.000000".
std::string short_number(std::string_view text) {
  const auto number = number_of(text);
  return number ? fmt::format("{}", *number) : std::string(text);
}

// Returns "text, json or yaml".
std::string alternatives(const std::vector<std::string>& words) {
  if (words.size() < 2) {
    return join_words(words);
  }
  return fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

// The parts of "OPTION: Value VALUE not in range LOW to HIGH", or nothing.
std::optional<std::string> range_error(std::string_view option, std::string_view rest) {
  constexpr std::string_view kStart = "Value ";
  constexpr std::string_view kMiddle = " not in range ";
  const std::size_t middle = rest.rfind(kMiddle);
  if (!rest.starts_with(kStart) || middle == std::string_view::npos || middle < kStart.size()) {
    return std::nullopt;
  }
  const std::string_view value = rest.substr(kStart.size(), middle - kStart.size());
  const std::string_view range = rest.substr(middle + kMiddle.size());
  const std::size_t to = range.find(" to ");
  if (to == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string limits =
      fmt::format("from {} to {}", short_number(range.substr(0, to)), short_number(range.substr(to + 4)));
  if (number_of(value)) {
    return fmt::format("{} is {}, but must be {}", option, value, limits);
  }
  const bool percent = value.ends_with('%') && number_of(value.substr(0, value.size() - 1));
  return percent
             ? fmt::format("{} is {}, but takes a number {} without the %", option, in_quotes(value), limits)
             : fmt::format("{} is {}, but must be a number {}", option, in_quotes(value), limits);
}

// The parts of "OPTION: VALUE not in {A,B,C}", or nothing.
std::optional<std::string> set_error(std::string_view option, std::string_view rest) {
  constexpr std::string_view kMiddle = " not in {";
  const std::size_t middle = rest.rfind(kMiddle);
  if (middle == std::string_view::npos || !rest.ends_with('}')) {
    return std::nullopt;
  }
  const std::string_view value = rest.substr(0, middle);
  const std::size_t begin = middle + kMiddle.size();
  const std::vector<std::string_view> known = split(rest.substr(begin, rest.size() - 1 - begin), ',');
  return fmt::format("{} is {}, but must be {}{}", option, in_quotes(value),
                     alternatives({known.begin(), known.end()}), did_you_mean(value, known));
}

// Returns the message about an option that lacks its value or has one of another type.
std::optional<std::string> value_error(std::string_view text) {
  constexpr std::string_view kConvert = "Could not convert: ";
  if (const std::size_t equals = text.find(" = "); text.starts_with(kConvert) && equals != text.npos) {
    return fmt::format("{} is {}, but must be a number",
                       text.substr(kConvert.size(), equals - kConvert.size()),
                       in_quotes(text.substr(equals + 3)));
  }
  if (const std::size_t colon = text.find(": 1 required ");
      colon != text.npos && text.ends_with(" missing")) {
    return fmt::format("{} needs a value", text.substr(0, colon));
  }
  return std::nullopt;
}

}  // namespace

std::string plain_error(std::string_view text, const std::vector<std::string>& commands) {
  if (text == "A subcommand is required" && !commands.empty()) {
    return fmt::format("a command is missing: {}", alternatives(commands));
  }
  if (auto message = value_error(text)) {
    return *std::move(message);
  }
  const std::size_t colon = text.find(": ");
  if (colon != std::string_view::npos) {
    const std::string_view option = text.substr(0, colon);
    const std::string_view rest = text.substr(colon + 2);
    if (auto message = range_error(option, rest)) {
      return *std::move(message);
    }
    if (auto message = set_error(option, rest)) {
      return *std::move(message);
    }
  }
  return std::string(text);
}

}  // namespace tessera::cli
