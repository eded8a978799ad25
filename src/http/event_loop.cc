#include "http/event_loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <utility>

#include "http/event_loop_impl.h"

namespace tessera::http {
namespace {

// Replaces only the default action, which ends the process. An existing handler stays.
void ignore_sigpipe() {
  struct sigaction now{};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
    now.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &now, nullptr);
  }
}

}  // namespace

struct Timer::Impl {
  Impl(const Executor& executor, std::chrono::nanoseconds delay, std::function<void()> what)
      : timer(executor), at(std::chrono::steady_clock::now() + delay), task(std::move(what)) {}

  SteadyTimer timer;  // the loop's thread only
  SteadyTime at;
  std::function<void()> task;  // the loop's thread only
  std::atomic<bool> over = false;
};

Timer& Timer::operator=(Timer&& other) noexcept {
  if (this != &other) {
    cancel();
    impl_ = std::move(other.impl_);
  }
  return *this;
}

Timer::~Timer() {
  cancel();
}

bool Timer::pending() const {
  return impl_ != nullptr && !impl_->over;
}

void Timer::cancel() {
  if (impl_ == nullptr || impl_->over.exchange(true)) {
    return;
  }
  // Asio's timer is not thread-safe, so it is cancelled on the loop.
  asio::post(impl_->timer.get_executor(), [impl = impl_] {
    impl->timer.cancel();
    impl->task = nullptr;
  });
  impl_.reset();
}

struct EventLoop::Impl::Waiting {
  explicit Waiting(const std::function<void()>& what) : task(what) {}
  const std::function<void()>& task;
  std::condition_variable done;
  bool finished = false;
};

void EventLoop::Impl::finish_waiting(std::unique_lock<std::mutex>& lock) {
  while (!waiting.empty()) {
    Waiting* next = waiting.front();
    waiting.pop_front();
    lock.unlock();
    next->task();
    lock.lock();
    next->finished = true;
    next->done.notify_all();
  }
}

void EventLoop::Impl::claim() {
  std::unique_lock lock(mutex);
  free.wait(lock, [this] { return owner.load() == std::thread::id{}; });
  owner = std::this_thread::get_id();
}

void EventLoop::Impl::release() {
  std::unique_lock lock(mutex);
  finish_waiting(lock);
  owner = std::thread::id{};
  free.notify_one();
}

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {
  ignore_sigpipe();
}

EventLoop::~EventLoop() {
  // Asio would wait for a host name look-up, which lasts as long as the name server does not
  // respond. Leak the memory that the look-up thread uses instead, so that a program can exit at
  // once.
  if (impl_->lookups > 0) {
    (void)impl_.release();  // NOLINT(bugprone-unused-return-value)
  }
}

void EventLoop::run() {
  impl_->claim();
  impl_->io.run();
  impl_->io.restart();
  impl_->release();
}

bool EventLoop::run_until(const std::function<bool()>& done, std::chrono::nanoseconds at_most) {
  impl_->claim();
  return serve_until(done, at_most);
}

std::optional<bool> EventLoop::try_run_until(const std::function<bool()>& done,
                                             std::chrono::nanoseconds at_most) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->owner.load() != std::thread::id{}) {
      return std::nullopt;
    }
    impl_->owner = std::this_thread::get_id();
  }
  return serve_until(done, at_most);
}

bool EventLoop::serve_until(const std::function<bool()>& done, std::chrono::nanoseconds at_most) {
  const SteadyTime end = std::chrono::steady_clock::now() + at_most;
  bool is_done = done();
  while (!is_done && !impl_->io.stopped() && std::chrono::steady_clock::now() < end) {
    impl_->io.run_one_until(end);
    is_done = done();
  }
  impl_->io.restart();
  impl_->release();
  return is_done;
}

void EventLoop::stop() {
  impl_->io.stop();
}

void EventLoop::post(std::function<void()> task) {
  asio::post(impl_->io.get_executor(), std::move(task));
}

void EventLoop::call(const std::function<void()>& task) {
  if (here()) {
    task();
    return;
  }
  std::unique_lock lock(impl_->mutex);
  if (impl_->owner.load() == std::thread::id{}) {
    impl_->owner = std::this_thread::get_id();
    lock.unlock();
    task();
    impl_->release();
    return;
  }
  Impl::Waiting waiting(task);
  impl_->waiting.push_back(&waiting);
  asio::post(impl_->io.get_executor(), [impl = impl_.get()] {
    std::unique_lock inside(impl->mutex);
    impl->finish_waiting(inside);
  });
  waiting.done.wait(lock, [&] { return waiting.finished; });
}

Timer EventLoop::after(std::chrono::nanoseconds delay, std::function<void()> task) {
  auto impl = std::make_shared<Timer::Impl>(impl_->io.get_executor(), delay, std::move(task));
  const auto start = [impl] {
    if (impl->over) {
      return;
    }
    impl->timer.expires_at(impl->at);
    impl->timer.async_wait([impl](error_code error) {
      if (!error && !impl->over.exchange(true)) {
        // Moved out first: the task may destroy its own Timer.
        const std::function<void()> what = std::move(impl->task);
        what();
      }
    });
  };
  if (here()) {
    start();
  } else {
    asio::post(impl_->io.get_executor(), start);
  }
  return Timer(std::move(impl));
}

bool EventLoop::here() const {
  return impl_->owner.load() == std::this_thread::get_id();
}

bool EventLoop::running() const {
  return impl_->owner.load() != std::thread::id{};
}

}  // namespace tessera::http
