// agent/devices/loop_gate.h
//
// A way onto an event loop for callbacks that may come at any time, also when what they are for has gone:
// then they are dropped.
//
//   LoopGate gate(loop);
//   resources.get(pod, 100ms, gate.wrap<Result<PodDevices>>([this](Result<PodDevices> pod) { ... }));
//   gate.close();                            // on the loop's thread: nothing comes through any more
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "http/event_loop.h"

namespace tessera::agent {

class LoopGate {
 public:
  explicit LoopGate(http::EventLoop& loop) : core_(std::make_shared<Core>()) { core_->loop = &loop; }
  LoopGate(const LoopGate&) = delete;
  LoopGate& operator=(const LoopGate&) = delete;
  ~LoopGate() { close(); }

  // A function for any thread that hands its argument to `task` on the loop.
  template <class Argument>
  [[nodiscard]] std::function<void(Argument)> wrap(std::function<void(Argument)> task) const {
    return [core = core_,
            task = std::make_shared<std::function<void(Argument)>>(std::move(task))](Argument argument) {
      core->post([core, task, argument = std::make_shared<Argument>(std::move(argument))] {
        if (core->is_open()) {
          (*task)(std::move(*argument));
        }
      });
    };
  }

  void close() const { core_->close(); }

 private:
  struct Core {
    std::mutex mutex;
    http::EventLoop* loop = nullptr;

    void post(std::function<void()> task) {
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

  std::shared_ptr<Core> core_;
};

}  // namespace tessera::agent
