// base/log.h
//
// Structured logging: one line per event, a message that says what happened, details in fields.
//
//   log::info("bound", {{"pod", pod}, {"node", node}, {"gpus", "2,3"}, {"took_ms", 0.4}});
//
//   2026-11-15T23:02:44.123456Z INFO  bound pod=ml/train-7 node=gpu-a gpus=2,3 took_ms=0.4
//   {"ts":"2026-11-15T23:02:44.123456Z","level":"info","msg":"bound","pod":"ml/train-7",...}
//
// Thread-safe. Until configure() is called, info and above go to standard error as text.
// Never log a secret (token, key, certificate), not even at debug level.
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

// Accepts debug, info, warn or warning, error and off, in upper or lower case.
Result<Level> parse_level(std::string_view text);
// Accepts text and json, in upper or lower case.
Result<Format> parse_format(std::string_view text);

struct Options {
  Level level = Level::kInfo;
  Format format = Format::kText;
  // The file to append to; standard error if empty.
  std::string path;
  // The clock for timestamps; must outlive all logging.
  const Clock* clock = &Clock::real();
};

// Applies `options` to all threads, starting with the next line. Returns kUnavailable and changes
// nothing if the file cannot be opened.
Status configure(const Options& options);

// Returns whether a line of this level would be written. Check it before building costly fields.
bool enabled(Level level);

class Field {
 public:
  // Implicit, so that callers can write {"pod", name}.
  template <class Value>
  Field(std::string_view name, const Value& value)
      : key(name), text(fmt::format("{}", value)), bare(is_bare<Value>()) {}
  Field(std::string_view name, const Error& error) : key(name), text(error.text()), bare(false) {}

  std::string_view key;
  std::string text;
  bool bare;  // an integer or a boolean: written without quotes in JSON

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
