// extender/drain_ack.h
//
// Acknowledges that no more pods are bound to a node whose agent is shutting down.
//
// The agent sets the annotation tessera.io/draining on its Node before it ends. The ledger then
// fences the node. When no bind to the node is in flight any more, this class writes the same value
// to tessera.io/draining-seen, and the agent ends. So kubelet never admits a pod while no agent is
// registered. Only the replica that may bind acknowledges.
//
//   DrainAck acks(context, binder, [&] { return leadership.may_bind(); });
//   acks.start();
//
// Used only on the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "extender/binder.h"
#include "extender/context.h"
#include "http/event_loop.h"

namespace tessera::extender {

class DrainAck {
 public:
  // The parts of `context` and `binder` must outlive this object.
  DrainAck(const Context& context, const Binder& binder, std::function<bool()> may_bind);
  DrainAck(const DrainAck&) = delete;
  DrainAck& operator=(const DrainAck&) = delete;

  void start() { check(); }

  [[nodiscard]] std::uint64_t written() const { return written_; }

 private:
  void check();
  void write(const std::string& node, const std::string& value);

  kube::Client& client_;
  const ClusterState& state_;
  const Binder& binder_;
  const std::function<bool()> may_bind_;
  // Writes in flight, and writes of the last second that failed, by node.
  std::map<std::string, kube::Call> calls_;
  std::map<std::string, Clock::Steady> not_before_;
  std::uint64_t written_ = 0;
  http::Timer timer_;
};

}  // namespace tessera::extender
