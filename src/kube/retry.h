// kube/retry.h
//
// Decides whether a failed request is retried, and which error the caller gets.
//
// Every rule depends on whether the server may have processed the request. A request that is safe
// to repeat is retried. Any other request, such as a Binding, is retried only if the server
// certainly did not process it. Otherwise the caller gets kTimeout and has to read the object to
// find out.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "kube/api_status.h"

namespace tessera::kube {

enum class Method { kGet, kPost, kPut, kPatch, kDelete };

std::string_view to_string(Method method);

// Whether a request may be repeated; set by the creator of the request.
enum class Repeat {
  kSafe,        // idempotent: reads, deletes with a UID, patches of plain values
  kIfNotActed,  // only if the server certainly did nothing: POST, updates with a resourceVersion
};

// The failure of one attempt. One of the two is set.
struct Attempt {
  std::optional<ApiStatus> status;  // the API server responded with an error
  std::optional<Error> transport;   // no response; http/client.h explains the codes
};

struct RetryRequest {
  Repeat repeat = Repeat::kIfNotActed;
  // Retry after 409. Set it if 409 means a lost race that a retry can win (a patch without a
  // resourceVersion), not a permanent conflict (the pod is already bound).
  bool repeat_conflict = false;
};

struct RetryVerdict {
  bool again = false;
  bool refresh_credential = false;
  // Minimum wait before the retry; the caller's backoff may be longer.
  std::chrono::seconds at_least{0};
};

// Decides whether to retry after this attempt. The caller limits the number of attempts. 429 is
// retried unless a PodDisruptionBudget refused an eviction, which the caller has to handle.
RetryVerdict judge(const RetryRequest& request, const Attempt& attempt);

// Returns whether the server certainly did not process the request.
bool certainly_not_done(const Attempt& attempt);

// Returns the error for the caller after the last attempt: the error of that attempt. If the
// request is not safe to repeat and the server may have processed it, the code is kTimeout.
Error final_error(const RetryRequest& request, const Attempt& attempt);

}  // namespace tessera::kube
