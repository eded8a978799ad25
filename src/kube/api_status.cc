#include "kube/api_status.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/json_reader.h"
#include "base/strings.h"

namespace tessera::kube {

namespace {

constexpr std::size_t kMaxMessage = 1024;
constexpr std::int64_t kMaxRetryAfter = 3600;

ErrorCode code_of(int http_status) {
  switch (http_status) {
    case 401:
    case 403:
      return ErrorCode::kDenied;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
    case 410:
    case 412:
      return ErrorCode::kConflict;
    case 413:
      return ErrorCode::kExhausted;
    case 408:
    case 504:
      return ErrorCode::kTimeout;
    default:
      return http_status >= 400 && http_status < 500 && http_status != 429 ? ErrorCode::kInvalid
                                                                           : ErrorCode::kUnavailable;
  }
}

// Replaces line breaks and other control characters by spaces.
std::string one_line(std::string_view text) {
  std::string line(text.substr(0, kMaxMessage));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') {
      c = ' ';
    }
  }
  return line;
}

Status read_details(const JsonReader& details, ApiStatus& status) {
  const std::int64_t seconds = TRY(details.integer_or("retryAfterSeconds", 0, INT32_MAX, 0));
  if (seconds > 0) {
    status.retry_after = std::chrono::seconds(std::min(seconds, kMaxRetryAfter));
  }
  if (!details.has("causes")) {
    return {};
  }
  for (const JsonReader& cause : TRY(details.array("causes", 1024))) {
    const std::string reason = TRY(cause.text_or("reason", ""));
    status.disruption_budget = status.disruption_budget || reason == "DisruptionBudget";
  }
  return {};
}

}  // namespace

Error ApiStatus::to_error() const {
  std::string text = message.empty() ? fmt::format("the API server responded {}", code)
                                     : fmt::format("the API server responded {}: {}", code, message);
  if (code == 401) {
    text += "; the token or client certificate is invalid or expired: log in again";
  }
  return {code_of(code), std::move(text)};
}

Result<ApiStatus> parse_status(std::string_view json) {
  const boost::json::value document = TRY(parse_json(json));
  const JsonReader root(document, "Status");
  if (TRY(root.text_or("kind", "")) != "Status") {
    return fail(root.wrong("is not of kind Status"));
  }
  ApiStatus status;
  status.code = static_cast<int>(TRY(root.integer_or("code", 0, 999, 0)));
  status.reason = one_line(TRY(root.text_or("reason", "")));
  status.message = one_line(TRY(root.text_or("message", "")));
  if (root.has("details")) {
    const JsonReader details = TRY(root.object("details"));
    TRY(read_details(details, status));
  }
  return status;
}

ApiStatus status_of_response(int http_status, std::string_view body, std::string_view retry_after_header) {
  ApiStatus status;
  if (auto parsed = parse_status(body)) {
    status = std::move(*parsed);
  } else {
    // A proxy or load balancer responded. The beginning of its text is the best available hint.
    status.message = one_line(trim(body).substr(0, 200));
  }
  status.code = http_status;
  if (const auto seconds = parse_retry_after(retry_after_header)) {
    status.retry_after = seconds;
  }
  return status;
}

std::optional<std::chrono::seconds> parse_retry_after(std::string_view header) {
  const auto seconds = parse_int(trim(header));
  if (!seconds || *seconds < 0) {
    return std::nullopt;
  }
  return std::chrono::seconds(std::min(*seconds, kMaxRetryAfter));
}

}  // namespace tessera::kube
