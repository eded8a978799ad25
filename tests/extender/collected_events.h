// tests/extender/collected_events.h
//
// Collects Events instead of sending them.
#pragma once

#include <vector>

#include "kube/event_sink.h"

namespace tessera::extender {

class CollectedEvents final : public kube::EventSink {
 public:
  bool record(const kube::EventNote& note) override {
    notes.push_back(note);
    return true;
  }

  std::vector<kube::EventNote> notes;
};

}  // namespace tessera::extender
