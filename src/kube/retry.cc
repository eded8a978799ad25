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
  if (!attempt.answer) {
    // Not reached, or not trusted: the request itself was never sent.
    const ErrorCode code = attempt.transport->code();
    return code == ErrorCode::kUnavailable || code == ErrorCode::kDenied;
  }
  const ApiStatus& answer = *attempt.answer;
  // 4xx is a decision not to act. Of the 5xx only one says so: 503 with a Retry-After, which the API server
  // sends while it starts, stops or sheds load. 500, 502 and 504 can come after the write.
  return answer.code < 500 || (answer.code == 503 && answer.retry_after.has_value());
}

RetryVerdict judge(const RetryRequest& request, const Attempt& attempt) {
  RetryVerdict verdict;
  const bool may_repeat = request.repeat == Repeat::kSafe || certainly_not_done(attempt);
  if (!attempt.answer) {
    // A certificate that is not accepted, a redirect, an answer that is no HTTP: the next one would be the
    // same.
    const ErrorCode code = attempt.transport->code();
    verdict.again = may_repeat && (code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout);
    return verdict;
  }
  const ApiStatus& answer = *attempt.answer;
  verdict.at_least = answer.retry_after.value_or(std::chrono::seconds(0));
  if (answer.code == 401) {
    verdict.again = true;
    verdict.refresh_credential = true;
  } else if (answer.code == 409) {
    verdict.again = request.repeat_conflict;
  } else if (answer.code == 429) {
    verdict.again = !answer.disruption_budget;
  } else if (answer.code >= 500) {
    // 501 and 505 will not get better.
    verdict.again = may_repeat && answer.code != 501 && answer.code != 505;
  }
  return verdict;
}

Error final_error(const RetryRequest& request, const Attempt& attempt) {
  Error said = attempt.answer ? attempt.answer->to_error() : *attempt.transport;
  const bool known = request.repeat == Repeat::kSafe || certainly_not_done(attempt);
  if (known || said.code() == ErrorCode::kTimeout) {
    return said;
  }
  return Error(ErrorCode::kTimeout, said.text() + "; whether it was done is unknown");
}

}  // namespace tessera::kube
