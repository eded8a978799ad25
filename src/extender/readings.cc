#include "extender/readings.h"

#include <array>
#include <utility>

namespace tessera::extender {

void add_ledger_readings(const ClusterState& state, daemon::Readings& readings) {
  const alloc::Ledger& ledger = state.ledger();
  double gpus = 0;
  double total = 0;
  double free = 0;
  double whole_free = 0;
  double away = 0;
  double approximate = 0;
  for (const alloc::NodeId id : ledger.nodes()) {
    const alloc::NodeView view = ledger.view(id);
    gpus += view.size();
    total += static_cast<double>(view.total_units);
    free += static_cast<double>(view.free_units);
    whole_free += ledger.states().whole_free(id);
    away += ledger.states().fence(id) == alloc::Fence::kAgentAway ? 1 : 0;
    approximate += view.tables != nullptr && !view.tables->exact() ? 1 : 0;
  }
  readings.gauge("tessera_extender_nodes", "Nodes with GPUs", static_cast<double>(ledger.nodes().size()));
  readings.gauge("tessera_extender_gpus", "GPUs of all nodes", gpus);
  readings.gauge("tessera_extender_gpus_free", "Healthy GPUs that no pod uses", whole_free);
  readings.gauge("tessera_extender_memory_units", "GPU memory of all nodes, in units", total);
  readings.gauge("tessera_extender_memory_units_free", "GPU memory that shares can still get, in units",
                 free);
  readings.gauge("tessera_extender_approximate_nodes",
                 "Nodes with too many GPUs for an exact search of the best set", approximate);
  readings.counter("tessera_extender_delayed_inventories_total",
                   "Inventories applied late because the GPU topology of their node changed too often",
                   state.delayed_changes());
  readings.gauge("tessera_extender_pods", "Pods that hold GPUs", static_cast<double>(ledger.pod_count()));
  readings.gauge("tessera_extender_waiting_pods", "Unbound pods that request GPUs",
                 static_cast<double>(state.waiting_pods()));
  const auto count_of = [&](alloc::ProblemKind kind) {
    return static_cast<double>(ledger.problem_count(kind));
  };
  for (std::size_t i = 0; i < alloc::kProblemKinds; ++i) {
    const auto kind = static_cast<alloc::ProblemKind>(i);
    readings.gauge("tessera_extender_problems", "Pods or nodes with an inconsistent GPU state, by kind",
                   count_of(kind), {{"kind", std::string(alloc::to_string(kind))}});
  }
  readings.gauge("tessera_extender_capacity_mismatch_nodes",
                 "Nodes whose capacity differs from their inventory",
                 count_of(alloc::ProblemKind::kCapacityDiffers));
  readings.gauge("tessera_extender_other_plugin_nodes",
                 "Nodes excluded because another device plugin runs there",
                 count_of(alloc::ProblemKind::kSecondPlugin));
  readings.gauge("tessera_extender_agent_away_nodes",
                 "Nodes excluded because their agent is shutting down, restarting or not ready", away);
  readings.counter("tessera_extender_pods_lost_total",
                   "Bound GPU pods that kubelet rejected with UnexpectedAdmissionError", state.pods_lost());
}

void add_bind_readings(const Binder& binder, daemon::Readings& readings) {
  const BindCounts& binds = binder.counts();
  const std::array<std::pair<const char*, std::uint64_t>, 7> results{{{"bound", binds.bound},
                                                                      {"repeated", binds.repeated},
                                                                      {"no_room", binds.no_room},
                                                                      {"refused", binds.refused},
                                                                      {"unknown", binds.unknown},
                                                                      {"not_leading", binds.not_leading},
                                                                      {"invalid", binds.invalid}}};
  for (const auto& [result, count] : results) {
    readings.counter("tessera_extender_binds_total", "Bind calls by result", count, {{"result", result}});
  }
  readings.gauge("tessera_extender_binds_in_flight", "Binds whose outcome is not known yet",
                 static_cast<double>(binder.in_flight()));
}

void add_watch_readings(const std::string& resource, const kube::Reflector& watch,
                        daemon::Readings& readings) {
  readings.counter("tessera_extender_watch_failures_total", "Lists and watches that ended with an error",
                   watch.counts().failures, {{"resource", resource}});
  readings.counter("tessera_extender_unreadable_objects_total", "Objects that could not be decoded",
                   watch.counts().unreadable, {{"resource", resource}});
}

}  // namespace tessera::extender
