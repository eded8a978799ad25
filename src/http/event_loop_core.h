// http/event_loop_core.h
//
// The inside of EventLoop, for the .cc files of this folder.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "http/asio.h"
#include "http/event_loop.h"
#include "http/watchdog.h"

namespace tessera::http {

struct EventLoop::Core {
  Core()
      : io(1), work(asio::make_work_guard(io)), deadlines(std::make_shared<Deadlines>(io.get_executor())) {}

  asio::io_context io;
  asio::executor_work_guard<Executor> work;
  std::shared_ptr<Deadlines> deadlines;

  // The thread whose loop it is now: in run(), in run_until(), or in call() while nobody runs the loop.
  std::mutex mutex;
  std::atomic<std::thread::id> owner{};  // written under the mutex
  std::condition_variable free;          // nobody is
  void claim();
  void release();

  // Names that the C library is looking up: nothing can break that off. Loop's thread.
  int lookups = 0;

  // Calls of other threads that wait for their end.
  struct Waiting;
  std::deque<Waiting*> waiting;
  void finish_waiting(std::unique_lock<std::mutex>& lock);
};

}  // namespace tessera::http
