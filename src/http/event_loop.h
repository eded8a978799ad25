// http/event_loop.h
//
// One thread that waits for everything: sockets, timers and work handed in from other threads.
//
// Servers and clients belong to a loop and call back on the thread that runs it, so what only they touch
// needs no lock. A daemon gives the loop a thread; a command-line program runs it until it has its answer:
//
//   EventLoop loop;
//   std::jthread thread([&] { loop.run(); });        // daemon: until loop.stop()
//
//   bool done = false;
//   loop.run_until([&] { return done; }, 30s);       // CLI: on this thread
//
// The loop must outlive its servers, clients and timers. While one exists SIGPIPE is ignored: a peer that
// hangs up is an error of a write, not the end of the process.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

namespace tessera::http {

// A call in the future. Destroying or cancelling it on the loop's thread means that it will not come; from
// another thread it may be under way already. Empty when default-constructed.
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
  struct State;
  explicit Timer(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

class EventLoop {
 public:
  EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  // Nobody may be in run() any more.
  ~EventLoop();

  // Serves until stop(). At once back if stop() was called before; run() can be called again after it came
  // back. One thread at a time.
  void run();

  // Serves until `done` says so or the time is up; which of the two it was, is returned (true: done). `done`
  // is asked again after every event.
  bool run_until(const std::function<bool()>& done, std::chrono::nanoseconds at_most);

  // The same, but nothing, at once, when another thread runs the loop.
  std::optional<bool> try_run_until(const std::function<bool()>& done, std::chrono::nanoseconds at_most);

  // Any thread; run() comes back soon. Work that waits stays for the next run().
  void stop();

  // Any thread: `task` runs on the loop, later, in the order of the calls.
  void post(std::function<void()> task);

  // Any thread: `task` has run when this comes back: here, when this is the loop's thread or nobody runs the
  // loop; otherwise there. Never from a thread that the loop waits for.
  void call(const std::function<void()>& task);

  // Any thread: runs `task` on the loop after `delay`.
  [[nodiscard]] Timer after(std::chrono::nanoseconds delay, std::function<void()> task);

  // Whether the caller is on the loop's thread, inside run() or run_until().
  [[nodiscard]] bool here() const;

  // Whether any thread is inside run() or run_until().
  [[nodiscard]] bool running() const;

  // For src/http alone; event_loop_core.h has it.
  struct Core;
  [[nodiscard]] Core& core() { return *core_; }

 private:
  // By the thread whose loop it is now.
  bool serve_until(const std::function<bool()>& done, std::chrono::nanoseconds at_most);

  std::unique_ptr<Core> core_;
};

}  // namespace tessera::http
