#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <cctype>
#include <memory>

#include "base/strings.h"

namespace tessera::log {

namespace {

// The current destination. configure() replaces it as a whole, so that a concurrent log line uses
// either the old or the new one.
struct Output {
  std::shared_ptr<spdlog::sinks::sink> sink;
  Format format = Format::kText;
  const Clock* clock = &Clock::real();
};

std::shared_ptr<Output> make_output(std::shared_ptr<spdlog::sinks::sink> sink, Format format,
                                    const Clock* clock) {
  // We format the complete line. The sink only adds the line break and serializes the threads.
  sink->set_formatter(
      std::make_unique<spdlog::pattern_formatter>("%v", spdlog::pattern_time_type::utc, "\n"));
  auto output = std::make_shared<Output>();
  output->sink = std::move(sink);
  output->format = format;
  output->clock = clock;
  return output;
}

std::atomic<Level> current_level{Level::kInfo};

// Never destroyed: a thread may still log while the process exits.
std::atomic<std::shared_ptr<Output>>& current_output() {
  static auto& output = *new std::atomic<std::shared_ptr<Output>>(
      make_output(std::make_shared<spdlog::sinks::stderr_sink_mt>(), Format::kText, &Clock::real()));
  return output;
}

std::string_view name_of(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info";
    case Level::kWarn:
      return "warn";
    case Level::kError:
      return "error";
    case Level::kOff:
      return "off";
  }
  return "unknown";
}

bool needs_quotes(std::string_view value) {
  return value.empty() || std::ranges::any_of(value, [](char c) {
           return c == ' ' || c == '"' || c == '=' || static_cast<unsigned char>(c) < 0x20;
         });
}

std::string text_line(const std::string& time, Level level, std::string_view message,
                      std::initializer_list<Field> fields) {
  std::string upper(name_of(level));
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string line = fmt::format("{} {:<5} {}", time, upper, message);
  for (const Field& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    line += needs_quotes(field.text) ? in_quotes(field.text, 4096) : field.text;
  }
  return line;
}

std::string json_line(const std::string& time, Level level, std::string_view message,
                      std::initializer_list<Field> fields) {
  const auto append = [](std::string& line, std::string_view key, std::string_view value, bool bare) {
    line += line.empty() ? '{' : ',';
    line += boost::json::serialize(boost::json::string_view(key.data(), key.size()));
    line += ':';
    line += bare ? std::string(value)
                 : boost::json::serialize(boost::json::string_view(value.data(), value.size()));
  };
  std::string line;
  append(line, "ts", time, false);
  append(line, "level", name_of(level), false);
  append(line, "msg", message, false);
  for (const Field& field : fields) {
    append(line, field.key, field.text, field.bare);
  }
  line += '}';
  return line;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

}  // namespace

Result<Level> parse_level(std::string_view text) {
  const std::string name = lower(text);
  if (name == "warning") {
    return Level::kWarn;
  }
  for (const Level level : {Level::kDebug, Level::kInfo, Level::kWarn, Level::kError, Level::kOff}) {
    if (name == name_of(level)) {
      return level;
    }
  }
  return fail(ErrorCode::kInvalid,
              "log level " + in_quotes(text) + " is not one of debug, info, warn, error, off");
}

Result<Format> parse_format(std::string_view text) {
  const std::string name = lower(text);
  if (name == "text") {
    return Format::kText;
  }
  if (name == "json") {
    return Format::kJson;
  }
  return fail(ErrorCode::kInvalid, "log format " + in_quotes(text) + " is not one of text, json");
}

Status configure(const Options& options) {
  std::shared_ptr<spdlog::sinks::sink> sink;
  try {
    if (options.path.empty()) {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.path);
    }
  } catch (const spdlog::spdlog_ex& error) {
    return fail(ErrorCode::kUnavailable, std::string("cannot open the log: ") + error.what());
  }
  current_output().store(make_output(std::move(sink), options.format, options.clock));
  current_level.store(options.level);
  return {};
}

bool enabled(Level level) {
  return level >= current_level.load(std::memory_order_relaxed) && level != Level::kOff;
}

void event(Level level, std::string_view message, std::initializer_list<Field> fields) {
  if (!enabled(level)) {
    return;
  }
  const std::shared_ptr<Output> output = current_output().load();
  const std::string time = rfc3339_micros(output->clock->wall());
  const std::string line = output->format == Format::kJson ? json_line(time, level, message, fields)
                                                           : text_line(time, level, message, fields);
  try {
    output->sink->log(spdlog::details::log_msg("", spdlog::level::info, line));
    output->sink->flush();
  } catch (const spdlog::spdlog_ex&) {
    // A full disk must not stop the process, and there is no other place to report it.
    return;
  }
}

}  // namespace tessera::log
