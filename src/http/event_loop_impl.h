// http/event_loop_impl.h
//
// The hidden part of EventLoop. Private to the .cc files of this folder.
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

struct EventLoop::Impl {
  Impl()
      : io(1), work(asio::make_work_guard(io)), deadlines(std::make_shared<Deadlines>(io.get_executor())) {}

  asio::io_context io;
  asio::executor_work_guard<Executor> work;
  std::shared_ptr<Deadlines> deadlines;

  // `owner` is the loop's thread: the thread inside run() or run_until(). While no thread runs the
  // loop, the owner is the thread inside call().
  std::mutex mutex;
  std::atomic<std::thread::id> owner{};  // written under the mutex
  std::condition_variable free;          // signalled when there is no owner
  // Makes the calling thread the owner. Waits until there is no other.
  void claim();
  // Runs the waiting calls, then gives up ownership.
  void release();

  // Number of host name look-ups in progress in the C library. They cannot be cancelled. Used only
  // on the loop's thread.
  int lookups = 0;

  // Calls of EventLoop::call() on other threads, which wait for their task to run.
  struct Waiting;
  std::deque<Waiting*> waiting;
  // Runs the tasks of all waiting calls. Releases `lock` while a task runs.
  void finish_waiting(std::unique_lock<std::mutex>& lock);
};

}  // namespace tessera::http
