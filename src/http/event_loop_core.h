// http/event_loop_core.h
//
// The inside of EventLoop, for the .cc files of this folder.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

#include "http/asio.h"
#include "http/event_loop.h"

namespace tessera::http {

struct EventLoop::Core {
  Core() : io(1), work(asio::make_work_guard(io)) {}

  asio::io_context io;
  asio::executor_work_guard<Executor> work;

  // Who is inside run(). Written under the mutex, so that call() can know that nobody will be.
  std::mutex mutex;
  std::atomic<std::thread::id> runner{};

  // Calls of other threads that wait for their end.
  struct Waiting;
  std::deque<Waiting*> waiting;
  void finish_waiting();
};

}  // namespace tessera::http
