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

struct CallThread::Impl {
  std::shared_ptr<const CallMonitor> monitor;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> jobs;
  bool stopping = false;
  bool ended = false;
  Idle idle;           // used and destroyed only by the thread
  std::thread thread;  // joined or detached only by the owner
};

CallThread::CallThread(std::shared_ptr<const CallMonitor> monitor, Idle idle)
    : impl_(std::make_shared<Impl>()) {
  impl_->monitor = std::move(monitor);
  impl_->idle = std::move(idle);
  impl_->thread = std::thread([impl = impl_] { run(impl); });
}

CallThread::~CallThread() {
  bool ended = false;
  {
    std::unique_lock lock(impl_->mutex);
    impl_->stopping = true;
    impl_->changed.notify_all();
    ended = impl_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return impl_->ended; });
  }
  if (ended) {
    impl_->thread.join();
  } else {
    impl_->thread.detach();
  }
}

void CallThread::run(const std::shared_ptr<Impl>& impl) {
  std::unique_lock lock(impl->mutex);
  while (!impl->stopping) {
    while (!impl->jobs.empty() && !impl->stopping) {
      const std::shared_ptr<Job> job = std::move(impl->jobs.front());
      impl->jobs.pop_front();
      lock.unlock();
      if (!job->abandoned) {
        job->run();
      }
      job->run = nullptr;  // its captures must be destroyed on this thread
      lock.lock();
    }
    if (impl->stopping) {
      break;
    }
    lock.unlock();
    const auto pause = impl->idle();
    lock.lock();
    impl->changed.wait_for(lock, pause, [&] { return impl->stopping || !impl->jobs.empty(); });
  }
  lock.unlock();
  impl->idle = nullptr;
  lock.lock();
  impl->jobs.clear();
  impl->ended = true;
  impl->changed.notify_all();
}

std::shared_ptr<CallThread::Job> CallThread::submit(std::function<void()> run) {
  auto job = std::make_shared<Job>();
  job->run = std::move(run);
  const std::lock_guard lock(impl_->mutex);
  impl_->jobs.push_back(job);
  impl_->changed.notify_all();
  return job;
}

void CallThread::abandon(const std::shared_ptr<Job>& job) {
  job->abandoned = true;
}

Error CallThread::timeout_error(const std::string& what, std::chrono::milliseconds waited) const {
  std::string reason = fmt::format("the driver thread has been busy for {:.1f} s",
                                   std::chrono::duration<double>(waited).count());
  if (const auto running = impl_->monitor->running()) {
    reason = hung_call_text(*running, Clock::real().now());
  }
  return Error(ErrorCode::kTimeout, std::move(reason)).context(what);
}

std::string hung_call_text(const CallMonitor::Running& running, Clock::Steady now) {
  const double seconds = std::chrono::duration<double>(now - running.since).count();
  return fmt::format("driver call {} has not answered for {:.{}f} s", running.call, seconds,
                     seconds < 10 ? 1 : 0);
}

}  // namespace tessera::gpu
