// agent/devices/drain.h
//
// Announces on the Node that this agent is shutting down, so that no pod is lost while there is no
// agent. kubelet rejects a pod for good if no agent is registered when the pod is admitted.
//
//   Drain drain(node);
//   drain.begin(10s, [&] { ... });      // before the end; then unregister from kubelet
//   drain.check(ready, alone);          // once a second
//
// begin() sets the annotation tessera.io/draining of the Node. The extender then binds no more pods
// to the node and writes the same value to tessera.io/draining-seen. After that, begin() waits until
// kubelet has admitted the pods that are already bound.
//
// The next agent removes both annotations when it serves pods. In a rolling update, the new agent runs
// next to the old agent. When the old agent ends, kubelet drops the plugins of both, and the new agent
// registers again. So the new agent removes the annotations only after the old agent has ended.
//
// All calls, including the destructor, are made on the event loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "agent/devices/node_context.h"
#include "base/clock.h"
#include "http/event_loop.h"
#include "kube/client.h"

namespace tessera::agent {

class Drain {
 public:
  // `node` must outlive this object.
  explicit Drain(const NodeContext& node) : node_(node) {}
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  // Announces the shutdown. Calls `done` when the agent may end, at the latest after `at_most`.
  void begin(std::chrono::milliseconds at_most, std::function<void()> done);

  // Removes the announcement of an earlier agent once this agent has been `ready` and `alone` in two
  // calls in a row. `ready` means that the agent is registered with kubelet, `alone` that no other
  // instance listens on a socket. Returns true when this agent becomes the only one that serves.
  bool check(bool ready, bool alone);

 private:
  void announce();
  void ask();
  void finish(const char* result);
  [[nodiscard]] std::size_t not_admitted() const;
  void clear();

  const NodeContext& node_;
  std::string value_;  // of the annotation; empty before begin()
  bool acknowledged_ = false;
  Clock::Steady until_{};
  std::function<void()> done_;
  bool was_settled_ = false;  // ready and alone in the last call of check()
  bool cleared_ = false;      // the Node has no announcement of an earlier agent
  bool clearing_ = false;
  kube::Call call_;
  http::Timer timer_;
};

}  // namespace tessera::agent
