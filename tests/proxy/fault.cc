#include "fault.h"

#include <limits>

#include "base/json_reader.h"

namespace tessera::proxy {
namespace {

Result<FaultKind> kind_of(const JsonReader& reader) {
  static const std::vector<std::pair<std::string_view, FaultKind>> kinds = {
      {"answer", FaultKind::kAnswer},
      {"delay", FaultKind::kDelay},
      {"cut", FaultKind::kCut},
      {"lose-answer", FaultKind::kLoseAnswer},
      {"truncate", FaultKind::kTruncate},
      {"half-chunk", FaultKind::kHalfChunk},
      {"duplicate", FaultKind::kDuplicate},
      {"stall", FaultKind::kStall},
      {"end-stream", FaultKind::kEndStream},
  };
  const std::string text = TRY(reader.text("kind"));
  for (const auto& [name, kind] : kinds) {
    if (name == text) {
      return kind;
    }
  }
  return fail(reader.wrong("has an unknown kind"));
}

}  // namespace

Result<Fault> parse_fault(std::string_view json) {
  const boost::json::value value = TRY(parse_json(json));
  const JsonReader reader(value, "fault");
  constexpr std::int64_t many = std::numeric_limits<int>::max();
  Fault fault;
  fault.kind = TRY(kind_of(reader));
  fault.method = TRY(reader.text_or("method", ""));
  fault.target_has = TRY(reader.text_or("target", ""));
  fault.skip = static_cast<int>(TRY(reader.integer_or("skip", 0, many, 0)));
  fault.times = static_cast<int>(TRY(reader.integer_or("times", -1, many, 1)));
  fault.status = static_cast<int>(TRY(reader.integer_or("status", 200, 599, 500)));
  fault.body = TRY(reader.text_or("body", ""));
  fault.delay = std::chrono::milliseconds(TRY(reader.integer_or("delay_ms", 0, many, 0)));
  fault.after_bytes = static_cast<std::size_t>(TRY(reader.integer_or("after_bytes", 0, many, 0)));
  fault.after_lines = static_cast<std::size_t>(TRY(reader.integer_or("after_lines", 0, many, 0)));
  fault.reset = TRY(reader.boolean_or("reset", false));
  if (const std::int64_t seconds = TRY(reader.integer_or("retry_after", -1, many, -1)); seconds >= 0) {
    fault.headers.emplace_back("Retry-After", std::to_string(seconds));
  }
  return fault;
}

}  // namespace tessera::proxy
