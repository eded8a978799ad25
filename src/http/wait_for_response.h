// http/wait_for_response.h
//
// Blocks a thread until the event loop delivers a response. Both fetch() functions use it.
#pragma once

#include <chrono>
#include <future>
#include <optional>

#include "base/result.h"
#include "http/event_loop.h"

namespace tessera::http {

// Waits for `response`. Runs the loop on the calling thread if no other thread does, and takes over
// if the thread that runs it stops. Must not be called on the loop's thread. Returns kCancelled if
// the loop was stopped while this thread ran it.
template <class T>
Result<T> wait_for_response(EventLoop& loop, std::future<Result<T>>& response) {
  const auto ready = [&] { return response.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
  while (!ready()) {
    const std::optional<bool> arrived = loop.try_run_until(ready, std::chrono::hours(24));
    if (!arrived) {
      // Another thread runs the loop. The timeout is how often we check whether it still does.
      response.wait_for(std::chrono::milliseconds(100));
    } else if (!*arrived) {
      return fail(ErrorCode::kCancelled, "the event loop was stopped before the response arrived");
    }
  }
  return response.get();
}

}  // namespace tessera::http
