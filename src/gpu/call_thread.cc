#include "gpu/call_thread.h"

#include <fmt/core.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace tessera::gpu {

struct CallThread::Job {
  std::function<void()> run;
  std::atomic<bool> abandoned = false;
};

struct CallThread::State {
  std::shared_ptr<const CallMonitor> monitor;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> jobs;
  bool woken = false;
  bool stopping = false;
  bool ended = false;
  Idle idle;           // used and destroyed by the thread only
  std::thread thread;  // joined or let go by the owner only
};

CallThread::CallThread(std::shared_ptr<const CallMonitor> monitor, Idle idle)
    : state_(std::make_shared<State>()) {
  state_->monitor = std::move(monitor);
  state_->idle = std::move(idle);
  state_->thread = std::thread([state = state_] { run(state); });
}

CallThread::~CallThread() {
  bool ended = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    state_->changed.notify_all();
    ended = state_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return state_->ended; });
  }
  if (ended) {
    state_->thread.join();
  } else {
    state_->thread.detach();
  }
}

void CallThread::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (!state->stopping) {
    while (!state->jobs.empty() && !state->stopping) {
      const std::shared_ptr<Job> job = std::move(state->jobs.front());
      state->jobs.pop_front();
      lock.unlock();
      if (!job->abandoned) {
        job->run();
      }
      job->run = nullptr;  // what it holds belongs to this thread
      lock.lock();
    }
    if (state->stopping) {
      break;
    }
    state->woken = false;
    lock.unlock();
    const auto pause = state->idle();
    lock.lock();
    state->changed.wait_for(lock, pause,
                            [&] { return state->stopping || state->woken || !state->jobs.empty(); });
  }
  lock.unlock();
  state->idle = nullptr;
  lock.lock();
  state->jobs.clear();
  state->ended = true;
  state->changed.notify_all();
}

std::shared_ptr<CallThread::Job> CallThread::submit(std::function<void()> run) {
  auto job = std::make_shared<Job>();
  job->run = std::move(run);
  const std::lock_guard lock(state_->mutex);
  state_->jobs.push_back(job);
  state_->changed.notify_all();
  return job;
}

void CallThread::abandon(const std::shared_ptr<Job>& job) {
  job->abandoned = true;
}

void CallThread::wake() {
  const std::lock_guard lock(state_->mutex);
  state_->woken = true;
  state_->changed.notify_all();
}

Error CallThread::late(const std::string& what, std::chrono::milliseconds waited) const {
  std::string why = fmt::format("the driver's thread has been busy for {:.1f} s",
                                std::chrono::duration<double>(waited).count());
  if (const auto running = state_->monitor->running()) {
    why = hung_call_text(*running, Clock::real().now());
  }
  return Error(ErrorCode::kTimeout, std::move(why)).context(what);
}

std::string hung_call_text(const CallMonitor::Running& running, Clock::Steady now) {
  const double seconds = std::chrono::duration<double>(now - running.since).count();
  return fmt::format("driver call {} has not answered for {:.{}f} s", running.call, seconds,
                     seconds < 10 ? 1 : 0);
}

}  // namespace tessera::gpu
