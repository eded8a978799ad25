// kube/retry.h
//
// Whether a request is sent again, and what a failed one means: the only place that knows.
//
// The question behind every rule is "can the server have done it?". A request that is safe to repeat is
// repeated; one that is not (a Binding) is repeated only where the server certainly did not act, and
// otherwise ends as kTimeout, which means "ask what became of it".
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "kube/api_status.h"

namespace tessera::kube {

enum class Method { kGet, kPost, kPut, kPatch, kDelete };

std::string_view to_string(Method method);

// What may be repeated, said by the one who makes the request.
enum class Repeat {
  kSafe,        // doing it twice is the same as once: reads, deletes with a UID, patches of plain values
  kIfNotActed,  // only where the server certainly did nothing: POST, updates with a resourceVersion
};

// How one attempt failed: one of the two is set.
struct Attempt {
  std::optional<ApiStatus> answer;  // the API server said no
  std::optional<Error> transport;   // there is no answer; http/client.h says what its codes mean
};

struct RetryRequest {
  Repeat repeat = Repeat::kIfNotActed;
  // 429 can be the server protecting itself (wait, then again) or a PodDisruptionBudget refusing an eviction
  // (the caller's business); a 409 can be a lost race that plain repetition mends (a patch without a
  // resourceVersion) or a fact (the pod is bound).
  bool repeat_conflict = false;
};

struct RetryVerdict {
  bool again = false;
  bool refresh_credential = false;
  // The least to wait before; the caller's backoff may be longer.
  std::chrono::seconds at_least{0};
};

// Attempts that may still follow are the caller's to count: this judges one.
RetryVerdict judge(const RetryRequest& request, const Attempt& attempt);

// Whether the server certainly did not do what was asked. kTimeout goes to the caller when it is false.
bool certainly_not_done(const Attempt& attempt);

// The error a caller gets when the last attempt ended like this and is not repeated.
Error final_error(const RetryRequest& request, const Attempt& attempt);

}  // namespace tessera::kube
