// gpu/call_thread.h
//
// One thread that makes all calls into a library that may hang, for callers who must not.
//
//   CallThread thread(monitor, idle);
//   Result<int> answer = thread.call<int>("count GPUs", 2s, [state] { return state->count(); });
//
// call() comes back at its deadline whatever the library does. What it was waiting for goes on, and its
// result is thrown away: the work must own all that it touches (shared_ptr, values), never refer to the
// caller's stack. Work whose caller has gone before it started is not done at all.
//
// Between calls the thread runs `idle`, which may block for a fraction of a second (waiting for the library's
// own events) and says how long the thread may sleep after it.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "base/result.h"
#include "gpu/call_monitor.h"

namespace tessera::gpu {

class CallThread {
 public:
  using Idle = std::function<std::chrono::milliseconds()>;

  // `monitor` is where the work tells which library call is under way. `idle` runs on the thread and dies
  // there, with all it holds, when the thread ends.
  CallThread(std::shared_ptr<const CallMonitor> monitor, Idle idle);
  // Waits a second for the call that is under way. One that hangs longer is left behind with its thread: the
  // process may end, the library must not be unloaded.
  ~CallThread();
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;

  // Any thread but this one. Fails with kTimeout and the name of the library call that does not answer.
  template <class T>
  Result<T> call(const std::string& what, std::chrono::milliseconds deadline,
                 std::function<Result<T>()> work) {
    auto promise = std::make_shared<std::promise<Result<T>>>();
    std::future<Result<T>> answer = promise->get_future();
    const auto job = submit([promise, work = std::move(work)] { promise->set_value(work()); });
    if (answer.wait_for(deadline) == std::future_status::ready) {
      return answer.get();
    }
    abandon(job);
    return fail(late(what, deadline));
  }

  // Any thread: `work` runs there, later, unless the thread ends before.
  void post(std::function<void()> work) { submit(std::move(work)); }

  // The thread runs `idle` soon, even if it sleeps.
  void wake();

 private:
  struct Job;
  struct State;

  std::shared_ptr<Job> submit(std::function<void()> run);
  static void abandon(const std::shared_ptr<Job>& job);
  [[nodiscard]] Error late(const std::string& what, std::chrono::milliseconds waited) const;
  static void run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

// "driver call nvmlDeviceGetUUID has not answered for 5 s": how a hung call is told everywhere.
std::string hung_call_text(const CallMonitor::Running& running, Clock::Steady now);

}  // namespace tessera::gpu
