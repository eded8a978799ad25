// A fault that the proxy injects, and the requests it applies to.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tessera::proxy {

enum class FaultKind {
  kAnswer,      // responds with `status`, `headers` and `body`; the server never sees the request
  kDelay,       // forwards the request after `delay`
  kCut,         // closes the connection without forwarding the request
  kLoseAnswer,  // forwards the request, waits for the response, and closes the connection instead of
                // forwarding it: the server processed the request, but the client cannot know
  kTruncate,    // closes the connection after `after_bytes` of the response body
  kHalfChunk,   // closes the connection in the middle of the chunk after `after_lines` lines of a stream
  kDuplicate,   // sends each line of a stream twice, from line `after_lines` on
  kStall,       // forwards nothing after `after_lines` lines of a stream, and keeps the connection open
  kEndStream,   // ends a stream cleanly after `after_lines` lines
};

struct Fault {
  FaultKind kind = FaultKind::kCut;
  // Applies to requests with this method and this text anywhere in the target. Empty: any.
  std::string method = {};
  std::string target_has = {};
  // Number of matching requests to skip, and number of requests to hit after that (-1: all).
  int skip = 0;
  int times = 1;

  int status = 500;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  std::chrono::milliseconds delay{0};
  std::size_t after_bytes = 0;
  std::size_t after_lines = 0;
  // For faults that close the connection: reset it instead.
  bool reset = false;
};

// Parses {"kind": "half-chunk", "target": "watch=", "after_lines": 3, ...}, the format of the
// control port.
//   kind: answer, delay, cut, lose-answer, truncate, half-chunk, duplicate, stall, end-stream
//   method, target, skip, times, status, body, retry_after (seconds), delay_ms, after_bytes,
//   after_lines, reset
Result<Fault> parse_fault(std::string_view json);

}  // namespace tessera::proxy
