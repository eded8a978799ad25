// http/answer.h
//
// Waiting, on a thread of its own, for an answer that the loop brings: the inside of both fetch().
#pragma once

#include <chrono>
#include <future>
#include <optional>

#include "base/result.h"
#include "http/event_loop.h"

namespace tessera::http {

// Runs the loop while nobody else does. Who runs it may begin or stop meanwhile: then the other takes over.
// Not on the loop's thread. kCancelled when the loop was stopped while we ran it.
template <class T>
Result<T> wait_for_answer(EventLoop& loop, std::future<Result<T>>& answer) {
  const auto ready = [&] { return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
  while (!ready()) {
    const std::optional<bool> came = loop.try_run_until(ready, std::chrono::hours(24));
    if (!came) {
      // Comes back at once with the answer; the time is how often we look whether the loop was left alone.
      answer.wait_for(std::chrono::milliseconds(100));
    } else if (!*came) {
      return fail(ErrorCode::kCancelled, "the event loop was stopped before the answer came");
    }
  }
  return answer.get();
}

}  // namespace tessera::http
