#include "http/event_loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <utility>

#include "http/event_loop_core.h"

namespace tessera::http {
namespace {

// Only the default, which kills, is replaced; whoever handles the signal keeps doing so.
void ignore_sigpipe() {
  struct sigaction now{};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
    now.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &now, nullptr);
  }
}

}  // namespace

struct Timer::State {
  State(const Executor& executor, std::chrono::nanoseconds delay, std::function<void()> what)
      : timer(executor), at(std::chrono::steady_clock::now() + delay), task(std::move(what)) {}

  SteadyTimer timer;  // the loop's thread only
  SteadyTime at;
  std::function<void()> task;  // likewise
  std::atomic<bool> over = false;
};

Timer& Timer::operator=(Timer&& other) noexcept {
  if (this != &other) {
    cancel();
    state_ = std::move(other.state_);
  }
  return *this;
}

Timer::~Timer() {
  cancel();
}

bool Timer::pending() const {
  return state_ != nullptr && !state_->over;
}

void Timer::cancel() {
  if (state_ == nullptr || state_->over.exchange(true)) {
    return;
  }
  // Asio's timer is not thread-safe; the loop lets go of it.
  asio::post(state_->timer.get_executor(), [state = state_] {
    state->timer.cancel();
    state->task = nullptr;
  });
  state_.reset();
}

struct EventLoop::Core::Waiting {
  explicit Waiting(const std::function<void()>& what) : task(what) {}
  const std::function<void()>& task;
  std::condition_variable done;
  bool finished = false;
};

void EventLoop::Core::finish_waiting(std::unique_lock<std::mutex>& lock) {
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

void EventLoop::Core::claim() {
  std::unique_lock lock(mutex);
  free.wait(lock, [this] { return owner.load() == std::thread::id{}; });
  owner = std::this_thread::get_id();
}

void EventLoop::Core::release() {
  std::unique_lock lock(mutex);
  finish_waiting(lock);
  owner = std::thread::id{};
  free.notify_one();
}

EventLoop::EventLoop() : core_(std::make_unique<Core>()) {
  ignore_sigpipe();
}

EventLoop::~EventLoop() {
  // Asio would wait for the thread that looks a name up, for as long as a name server does not answer. A
  // program that wants to end is not made to wait for that: what the thread uses stays behind.
  if (core_->lookups > 0) {
    (void)core_.release();  // NOLINT(bugprone-unused-return-value)
  }
}

void EventLoop::run() {
  core_->claim();
  core_->io.run();
  core_->io.restart();
  core_->release();
}

bool EventLoop::run_until(const std::function<bool()>& done, std::chrono::nanoseconds at_most) {
  core_->claim();
  return serve_until(done, at_most);
}

std::optional<bool> EventLoop::try_run_until(const std::function<bool()>& done,
                                             std::chrono::nanoseconds at_most) {
  {
    const std::lock_guard lock(core_->mutex);
    if (core_->owner.load() != std::thread::id{}) {
      return std::nullopt;
    }
    core_->owner = std::this_thread::get_id();
  }
  return serve_until(done, at_most);
}

bool EventLoop::serve_until(const std::function<bool()>& done, std::chrono::nanoseconds at_most) {
  const SteadyTime end = std::chrono::steady_clock::now() + at_most;
  bool is_done = done();
  while (!is_done && !core_->io.stopped() && std::chrono::steady_clock::now() < end) {
    core_->io.run_one_until(end);
    is_done = done();
  }
  core_->io.restart();
  core_->release();
  return is_done;
}

void EventLoop::stop() {
  core_->io.stop();
}

void EventLoop::post(std::function<void()> task) {
  asio::post(core_->io.get_executor(), std::move(task));
}

void EventLoop::call(const std::function<void()>& task) {
  if (here()) {
    task();
    return;
  }
  std::unique_lock lock(core_->mutex);
  if (core_->owner.load() == std::thread::id{}) {
    core_->owner = std::this_thread::get_id();
    lock.unlock();
    task();
    core_->release();
    return;
  }
  Core::Waiting waiting(task);
  core_->waiting.push_back(&waiting);
  asio::post(core_->io.get_executor(), [core = core_.get()] {
    std::unique_lock inside(core->mutex);
    core->finish_waiting(inside);
  });
  waiting.done.wait(lock, [&] { return waiting.finished; });
}

Timer EventLoop::after(std::chrono::nanoseconds delay, std::function<void()> task) {
  auto state = std::make_shared<Timer::State>(core_->io.get_executor(), delay, std::move(task));
  const auto start = [state] {
    if (state->over) {
      return;
    }
    state->timer.expires_at(state->at);
    state->timer.async_wait([state](error_code error) {
      if (!error && !state->over.exchange(true)) {
        // Moved out first: the task may destroy its own Timer.
        const std::function<void()> what = std::move(state->task);
        what();
      }
    });
  };
  if (here()) {
    start();
  } else {
    asio::post(core_->io.get_executor(), start);
  }
  return Timer(std::move(state));
}

bool EventLoop::here() const {
  return core_->owner.load() == std::this_thread::get_id();
}

bool EventLoop::running() const {
  return core_->owner.load() != std::thread::id{};
}

}  // namespace tessera::http
