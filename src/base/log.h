// base/log.h
//
// Log lines are events with fields, once per event:
//
//   log::info("bind", {{"pod", pod}, {"node", node}, {"gpus", "2,3"}, {"took_ms", 0.4}});
//
//   2026-11-15T23:02:44.123456Z INFO  bind pod=ml/train-7 node=gpu-a gpus=2,3 took_ms=0.4
//   {"ts":"2026-11-15T23:02:44.123456Z","level":"info","msg":"bind","pod":"ml/train-7",...}
//
// Any thread may log. Until configure() is called, info and above go to standard error as text.
// No secret is ever a field: tokens, keys and certificates have no place here, not even at debug.
#pragma once

#include <fmt/core.h>

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "base/result.h"

namespace tessera::log {

enum class Level { kDebug, kInfo, kWarn, kError, kOff };
enum class Format { kText, kJson };

// "debug", "info", "warn" or "warning", "error", "off", in any case.
Result<Level> parse_level(std::string_view text);
// "text" or "json".
Result<Format> parse_format(std::string_view text);

struct Options {
  Level level = Level::kInfo;
  Format format = Format::kText;
  // Where lines go; standard error if empty. The file is appended to.
  std::string path;
  // Whose time stands in the lines; must outlive all logging.
  const Clock* clock = &Clock::real();
};

// Applies to every thread from the next line on. Fails, and changes nothing, when the file cannot be opened.
Status configure(const Options& options);

// Whether such a line would be written: ask before building costly fields.
bool enabled(Level level);

class Field {
 public:
  // Implicit by design: a field is written {"pod", name} at the call.
  template <class Value>
  Field(std::string_view name, const Value& value)
      : key(name), text(fmt::format("{}", value)), bare(is_bare<Value>()) {}
  Field(std::string_view name, const Error& error) : key(name), text(error.text()), bare(false) {}

  std::string_view key;
  std::string text;
  bool bare;  // a number or a truth value: stands without quotes in JSON

 private:
  template <class Value>
  static constexpr bool is_bare() {
    return std::integral<Value> && !std::same_as<Value, char>;
  }
};

void event(Level level, std::string_view message, std::initializer_list<Field> fields);

inline void debug(std::string_view message, std::initializer_list<Field> fields = {}) {
  if (enabled(Level::kDebug)) {
    event(Level::kDebug, message, fields);
  }
}
inline void info(std::string_view message, std::initializer_list<Field> fields = {}) {
  event(Level::kInfo, message, fields);
}
inline void warn(std::string_view message, std::initializer_list<Field> fields = {}) {
  event(Level::kWarn, message, fields);
}
inline void error(std::string_view message, std::initializer_list<Field> fields = {}) {
  event(Level::kError, message, fields);
}

}  // namespace tessera::log
