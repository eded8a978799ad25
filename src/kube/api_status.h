// kube/api_status.h
//
// The Status object of an error response of the API server.
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
  std::string reason;   // "Conflict", "AlreadyExists", "Expired", ...; "" if the body has none
  std::string message;  // the server's message, truncated to fit a log line
  std::optional<std::chrono::seconds> retry_after;
  bool disruption_budget = false;  // a PodDisruptionBudget currently forbids the eviction

  // Returns whether the resourceVersion or continue token is too old, so that a re-list is needed.
  [[nodiscard]] bool expired() const { return code == 410 || reason == "Expired" || reason == "Gone"; }

  // Returns kDenied for 401 and 403, kNotFound for 404, kConflict for 409, and so on.
  [[nodiscard]] Error to_error() const;
};

// Parses a Status object. Returns kInvalid for other JSON and for text that is not JSON (such as
// the HTML of a proxy).
Result<ApiStatus> parse_status(std::string_view json);

// Returns the status of an error response. The body need not be a Status object. Pass "" as
// `retry_after_header` if the response has no Retry-After header.
ApiStatus status_of_response(int http_status, std::string_view body, std::string_view retry_after_header);

// Parses the number of seconds in a Retry-After header and limits it to an hour. Returns nullopt
// for other text, including a date. The API server does not send dates.
std::optional<std::chrono::seconds> parse_retry_after(std::string_view header);

}  // namespace tessera::kube
