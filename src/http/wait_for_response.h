// http/wait_for_response.h
//
// Blocks a thread until the event loop delivers a response. Used by the fetch() functions of
// http::Client and kube::Client.
#pragma once

#include <chrono>
#include <future>
#include <optional>

#include "base/result.h"
#include "http/event_loop.h"

namespace tessera::http {

// Waits for `response` and returns it. Runs the loop on the calling thread while no other thread
// runs it. Returns kCancelled if the loop is stopped while the calling thread runs it. Must not be
// called on the loop's thread.
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
