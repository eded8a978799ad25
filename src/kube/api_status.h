// kube/api_status.h
//
// The Status object with which the API server explains a refusal, and what it means for a caller.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/result.h"

namespace tessera::kube {

struct ApiStatus {
  int code = 0;         // HTTP status
  std::string reason;   // "Conflict", "AlreadyExists", "Expired", ...; "" when the body said none
  std::string message;  // the server's words, cut to a length that fits a log line
  std::optional<std::chrono::seconds> retry_after;
  bool disruption_budget = false;  // an eviction that a PodDisruptionBudget forbids for now

  // A resourceVersion or continue token that the server no longer knows: list again.
  [[nodiscard]] bool expired() const { return code == 410 || reason == "Expired" || reason == "Gone"; }

  // For Result: kDenied for 401 and 403, kNotFound for 404, kConflict for 409, and so on.
  [[nodiscard]] Error to_error() const;
};

// Reads a Status object. Any other JSON, and text that is no JSON (a proxy's HTML), is kInvalid.
Result<ApiStatus> parse_status(std::string_view json);

// What an answer with a status of 400 and more says, whatever its body is. `retry_after_header` may be "".
ApiStatus status_of_answer(int http_status, std::string_view body, std::string_view retry_after_header);

// The header's number of seconds, at most an hour; the form with a date is not used by the API server.
std::optional<std::chrono::seconds> parse_retry_after(std::string_view header);

}  // namespace tessera::kube
