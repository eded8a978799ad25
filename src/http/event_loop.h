// http/event_loop.h
//
// A single-threaded event loop for sockets, timers and tasks posted by other threads.
//
// Servers and clients belong to a loop and call back on the thread that runs it, so data that only
// callbacks use needs no lock. A daemon runs the loop on its own thread; a command-line program
// runs the loop until the response has arrived:
//
//   EventLoop loop;
//   std::jthread thread([&] { loop.run(); });        // daemon: until loop.stop()
//
//   bool done = false;
//   loop.run_until([&] { return done; }, 30s);       // CLI: on this thread
//
// The loop must outlive its servers, clients and timers. Creating a loop makes the process ignore
// SIGPIPE, unless the program has installed a handler for it. Writing to a closed connection then
// returns an error instead of ending the process.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

namespace tessera::http {

// A handle to a scheduled task. After it is destroyed or cancelled on the loop's thread, the task
// does not run any more. If another thread destroys or cancels it, the task may already be running.
// A default-constructed Timer has no task.
class Timer {
 public:
  Timer() = default;
  Timer(Timer&&) noexcept = default;
  Timer& operator=(Timer&& other) noexcept;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer();

  void cancel();
  [[nodiscard]] bool pending() const;

 private:
  friend class EventLoop;
  struct Impl;
  explicit Timer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<Impl> impl_;
};

class EventLoop {
 public:
  EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  // No thread may be inside run() when the loop is destroyed.
  ~EventLoop();

  // Processes events until stop() is called. Returns at once if stop() was called before run(). May
  // be called again after it returned. Only one thread can run the loop at a time.
  void run();

  // Processes events until `done` returns true or `at_most` has passed. Returns whether `done`
  // returned true. Calls `done` after every event.
  bool run_until(const std::function<bool()>& done, std::chrono::nanoseconds at_most);

  // Like run_until(), but if another thread runs the loop, returns nullopt at once.
  std::optional<bool> try_run_until(const std::function<bool()>& done, std::chrono::nanoseconds at_most);

  // Makes run() return soon. Pending tasks stay queued for the next run(). Any thread may call
  // this.
  void stop();

  // Runs `task` on the loop later. Tasks run in the order they were posted. Any thread may call
  // this.
  void post(std::function<void()> task);

  // Runs `task` and waits until it is done. If another thread runs the loop, the task runs on that
  // thread. Otherwise it runs on the calling thread. Any thread may call this. call() deadlocks if
  // a task on the loop waits for the calling thread.
  void call(const std::function<void()>& task);

  // Runs `task` on the loop after `delay`. Any thread may call this.
  [[nodiscard]] Timer after(std::chrono::nanoseconds delay, std::function<void()> task);

  // Returns whether the caller is on the loop's thread: inside run(), run_until(), or a task of
  // call().
  [[nodiscard]] bool here() const;

  // Returns whether any thread is currently the loop's thread.
  [[nodiscard]] bool running() const;

  // Private to src/http; defined in event_loop_impl.h.
  struct Impl;
  [[nodiscard]] Impl& impl() { return *impl_; }

 private:
  // Does the work of run_until(). The calling thread must own the loop. serve_until() gives up the
  // ownership before it returns.
  bool serve_until(const std::function<bool()>& done, std::chrono::nanoseconds at_most);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::http
