// agent/devices/loop_gate.h
//
// Moves callbacks from other threads to an event loop. close() makes the gate drop all callbacks that
// have not run yet. So an object that closes its gate may be destroyed while a callback is still pending.
//
//   LoopGate gate(loop);
//   resources.get(pod, 100ms, gate.wrap<Result<PodDevices>>([this](auto pod) { ... }));
//   gate.close();                            // on the loop's thread; no callback runs afterwards
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "http/event_loop.h"

namespace tessera::agent {

// Receives the result of an asynchronous call. Called exactly once.
template <class Result>
using Done = std::function<void(Result)>;

class LoopGate {
 public:
  explicit LoopGate(http::EventLoop& loop) : impl_(std::make_shared<Impl>()) { impl_->loop = &loop; }
  LoopGate(const LoopGate&) = delete;
  LoopGate& operator=(const LoopGate&) = delete;
  ~LoopGate() { close(); }

  // Returns a function that any thread may call. The function passes its argument to `task`, which
  // runs on the loop. After close(), the function does nothing.
  template <class Argument>
  [[nodiscard]] Done<Argument> wrap(Done<Argument> task) const {
    return [impl = impl_, task = std::make_shared<Done<Argument>>(std::move(task))](Argument argument) {
      impl->post([impl, task, argument = std::make_shared<Argument>(std::move(argument))] {
        if (impl->is_open()) {
          (*task)(std::move(*argument));
        }
      });
    };
  }

  void close() const { impl_->close(); }

 private:
  struct Impl {
    std::mutex mutex;
    http::EventLoop* loop = nullptr;

    template <class Task>
    void post(Task task) {
      const std::lock_guard lock(mutex);
      if (loop != nullptr) {
        loop->post(std::move(task));
      }
    }
    bool is_open() {
      const std::lock_guard lock(mutex);
      return loop != nullptr;
    }
    void close() {
      const std::lock_guard lock(mutex);
      loop = nullptr;
    }
  };

  std::shared_ptr<Impl> impl_;
};

}  // namespace tessera::agent
