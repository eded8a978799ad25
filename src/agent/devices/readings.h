// agent/devices/readings.h
//
// What the agent knows as metrics, of any kind of device: resources, answers to kubelet, writes to the API
// server. docs/reference.md lists every name. Pure.
//
//   Readings all;
//   all.add_resources(plugins.resources());
//   metrics.text(all.take());
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "agent/devices/allocator.h"
#include "agent/devices/asker.h"
#include "agent/devices/object_keeper.h"
#include "agent/devices/plugins.h"
#include "daemon/readings.h"
#include "kube/event_aggregator.h"

namespace tessera::agent {

class Readings : public daemon::Readings {
 public:
  // How kubelet's questions were answered, and how it was known which pod asked.
  void add_answers(const Allocator::Counts& answers, const AskerSearch::Counts& searches);
  void add_resources(const std::vector<Plugins::Resource>& resources);
  // What is kept in the API server: {"inventory", state}, ...
  void add_objects(const std::vector<std::pair<std::string, ObjectKeeper::State>>& objects);
  void add_events(const kube::EventAggregator::Counts& events);
  void add_server(const http::ServerStats& stats);
};

}  // namespace tessera::agent
