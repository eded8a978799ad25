// kube/event_recorder.h
//
// Writes Kubernetes Events without ever making anybody wait: record() copies and returns. What is
// too much is dropped and counted (event_aggregator.h).
#pragma once

#include <chrono>
#include <memory>

#include "kube/client.h"
#include "kube/event_aggregator.h"
#include "kube/event_sink.h"

namespace tessera::kube {

struct EventRecorderOptions {
  EventAggregatorOptions aggregator{};
  // The least time between two requests, so that a burst does not crowd out what matters.
  std::chrono::milliseconds pace{100};
};

class EventRecorder final : public EventSink {
 public:
  // `client` must outlive it. Destroy it on the loop's thread, or when the loop no longer runs.
  EventRecorder(Client& client, EventRecorderOptions options);
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;
  ~EventRecorder() override;

  // Any thread. Returns false if the Event was dropped.
  bool record(const EventNote& note) override;
  [[nodiscard]] EventAggregator::Counts counts() const;
  // Whether all that was recorded has been sent or dropped.
  [[nodiscard]] bool idle() const;

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace tessera::kube
