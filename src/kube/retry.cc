#include "kube/retry.h"

namespace tessera::kube {

std::string_view to_string(Method method) {
  switch (method) {
    case Method::kGet:
      return "GET";
    case Method::kPost:
      return "POST";
    case Method::kPut:
      return "PUT";
    case Method::kPatch:
      return "PATCH";
    case Method::kDelete:
      return "DELETE";
  }
  return "?";
}

bool certainly_not_done(const Attempt& attempt) {
  if (!attempt.status) {
    // The server was not reached or not trusted, so the request was never sent.
    const ErrorCode code = attempt.transport->code();
    return code == ErrorCode::kUnavailable || code == ErrorCode::kDenied;
  }
  const ApiStatus& status = *attempt.status;
  // 4xx means that the server did not act. Of 5xx, only 503 with Retry-After does: the API server
  // sends it while it starts, stops or sheds load. 500, 502 and 504 may follow a write.
  return status.code < 500 || (status.code == 503 && status.retry_after.has_value());
}

RetryVerdict judge(const RetryRequest& request, const Attempt& attempt) {
  RetryVerdict verdict;
  const bool may_repeat = request.repeat == Repeat::kSafe || certainly_not_done(attempt);
  if (!attempt.status) {
    // A rejected certificate, a redirect or a response that is not HTTP would occur again.
    const ErrorCode code = attempt.transport->code();
    verdict.again = may_repeat && (code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout);
    return verdict;
  }
  const ApiStatus& status = *attempt.status;
  verdict.at_least = status.retry_after.value_or(std::chrono::seconds(0));
  if (status.code == 401) {
    verdict.again = true;
    verdict.refresh_credential = true;
  } else if (status.code == 409) {
    verdict.again = request.repeat_conflict;
  } else if (status.code == 429) {
    verdict.again = !status.disruption_budget;
  } else if (status.code >= 500) {
    // 501 and 505 are permanent.
    verdict.again = may_repeat && status.code != 501 && status.code != 505;
  }
  return verdict;
}

Error final_error(const RetryRequest& request, const Attempt& attempt) {
  Error error = attempt.status ? attempt.status->to_error() : *attempt.transport;
  const bool known = request.repeat == Repeat::kSafe || certainly_not_done(attempt);
  if (known || error.code() == ErrorCode::kTimeout) {
    return error;
  }
  return Error(ErrorCode::kTimeout, error.text() + "; whether the server processed it is unknown");
}

}  // namespace tessera::kube
