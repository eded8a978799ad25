// gpu/call_thread.h
//
// A thread that makes all calls into a library that may hang. Other threads wait for a result only
// until a deadline.
//
//   CallThread thread(monitor, idle);
//   Result<int> answer = thread.call<int>("count GPUs", 2s, [state] { return state->count(); });
//
// call() returns at its deadline, even if the library hangs. The work then continues in the
// background and its result is discarded. The work must therefore own everything it uses
// (shared_ptr, values) and must not refer to the caller's stack. Work that has not started by the
// deadline is skipped.
//
// Between calls the thread runs `idle`, which may block for a fraction of a second (to wait for
// events of the library). `idle` returns how long the thread may sleep before it runs `idle` again.
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

  // `monitor` is where the work records its library calls; timeout errors name the recorded call.
  // `idle` runs on the thread and is destroyed there, with its captures, when the thread ends.
  CallThread(std::shared_ptr<const CallMonitor> monitor, Idle idle);
  // Waits up to one second for the current call to return. If it does not return, detaches the
  // thread. The process may then exit, but must not unload the library.
  ~CallThread();
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;

  // Runs `work` on the thread and returns its result. Returns kTimeout with the name of the hung
  // library call if there is no result within `deadline`. Call it from any other thread.
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
    return fail(timeout_error(what, deadline));
  }

  // Runs `work` on the thread later, unless the thread ends first. Call it from any thread.
  void post(std::function<void()> work) { submit(std::move(work)); }

 private:
  struct Job;
  struct Impl;

  std::shared_ptr<Job> submit(std::function<void()> run);
  static void abandon(const std::shared_ptr<Job>& job);
  [[nodiscard]] Error timeout_error(const std::string& what, std::chrono::milliseconds waited) const;
  static void run(const std::shared_ptr<Impl>& impl);

  std::shared_ptr<Impl> impl_;
};

// Returns "driver call nvmlDeviceGetUUID has not answered for 5 s".
std::string hung_call_text(const CallMonitor::Running& running, Clock::Steady now);

}  // namespace tessera::gpu
