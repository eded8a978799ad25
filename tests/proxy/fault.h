// What the fault proxy does to a request, and to which.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tessera::proxy {

enum class FaultKind {
  kAnswer,      // answers `status`, `headers` and `body` itself; the server never sees the request
  kDelay,       // passes the request on after `delay`
  kCut,         // closes the connection without passing the request on
  kLoseAnswer,  // passes the request on, waits for the answer, and closes instead of handing it on: it was
                // carried out, and the client cannot know
  kTruncate,    // closes after `after_bytes` of the answer's body
  kHalfChunk,   // closes in the middle of the chunk that follows `after_lines` whole lines of a stream
  kDuplicate,   // sends each line of a stream twice, from line `after_lines` on
  kStall,       // hands nothing on after `after_lines` lines of a stream, and keeps the connection open
  kEndStream,   // ends a stream in good order after `after_lines` lines
};

struct Fault {
  FaultKind kind = FaultKind::kCut;
  // Requests it applies to: this method, and this text anywhere in the target. Empty: any.
  std::string method = {};
  std::string target_has = {};
  // How many of them pass first, and how many are hit then (-1: all).
  int skip = 0;
  int times = 1;

  int status = 500;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  std::chrono::milliseconds delay{0};
  std::size_t after_bytes = 0;
  std::size_t after_lines = 0;
  // A reset instead of an end, for those that close.
  bool reset = false;
};

// Reads {"kind": "half-chunk", "target": "watch=", "after_lines": 3, ...}: the form of the control port.
//   kind: answer, delay, cut, lose-answer, truncate, half-chunk, duplicate, stall, end-stream
//   method, target, skip, times, status, body, retry_after (seconds), delay_ms, after_bytes, after_lines,
//   reset
Result<Fault> parse_fault(std::string_view json);

}  // namespace tessera::proxy
