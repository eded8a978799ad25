#include "agent/gpu/gpu_readings.h"

#include <cstdint>

namespace tessera::agent {

namespace {

using Labels = Readings::Labels;

constexpr double kMib = 1U << 20U;

Labels labels_of(const alloc::Gpu& gpu) {
  return {{"gpu", std::to_string(gpu.index)}, {"uuid", gpu.uuid}};
}

// Returns the labels of the GPU with this UUID. The index is "" if the GPU is gone.
Labels labels_of(const alloc::Inventory& inventory, const std::string& uuid) {
  const auto found = inventory.find_uuid(uuid);
  return found ? labels_of(inventory.gpus[*found]) : Labels{{"gpu", ""}, {"uuid", uuid}};
}

std::string_view to_string(gpu::XidClass severity) {
  switch (severity) {
    case gpu::XidClass::kIgnored:
      return "ignored";
    case gpu::XidClass::kRecoverable:
      return "recoverable";
    case gpu::XidClass::kFatal:
      break;
  }
  return "fatal";
}

}  // namespace

void add_gpus(Readings& readings, const gpu::DriverState& state, const UsageSample& sample,
              const std::vector<MemoryUse>& uses) {
  for (const alloc::Gpu& gpu : state.inventory.gpus) {
    Labels info = labels_of(gpu);
    info.emplace_back("model", gpu.model);
    info.emplace_back("pci", gpu.pci_bus_id);
    readings.gauge("tessera_gpu_info", "A GPU of this node; always 1", 1, std::move(info));
    readings.gauge("tessera_gpu_healthy", "1 if the GPU is healthy and offered to pods",
                   gpu.healthy() ? 1 : 0, labels_of(gpu));
    readings.gauge("tessera_gpu_memory_total_bytes", "Memory of the GPU", gpu.memory_mib * kMib,
                   labels_of(gpu));
    readings.gauge("tessera_gpu_memory_reserved_bytes", "Memory reserved by the driver",
                   gpu.reserved_mib * kMib, labels_of(gpu));
    readings.gauge("tessera_gpu_memory_allocated_bytes",
                   "Memory allocated to pods; all memory if a pod has the whole GPU",
                   static_cast<double>(allocated_bytes(uses, gpu.uuid, std::uint64_t{gpu.memory_mib} << 20U)),
                   labels_of(gpu));
  }
  for (const SampledGpu& use : sample.gpus) {
    const Labels labels = labels_of(state.inventory, use.uuid);
    if (!use.usage) {
      continue;
    }
    readings.gauge("tessera_gpu_memory_used_bytes", "Memory used by processes",
                   static_cast<double>(use.usage->memory.used), labels);
    readings.gauge("tessera_gpu_memory_outside_pods_bytes", "Memory used by processes that belong to no pod",
                   static_cast<double>(use.outside_bytes), labels);
    if (use.usage->busy_percent) {
      readings.gauge("tessera_gpu_utilization_ratio", "Fraction of time that the GPU was busy",
                     *use.usage->busy_percent / 100.0, labels);
    }
  }
  for (const gpu::XidCount& xid : state.xids) {
    Labels labels = labels_of(state.inventory, xid.uuid);
    labels.emplace_back("xid", std::to_string(xid.xid));
    labels.emplace_back("class", to_string(xid.severity));
    readings.counter("tessera_gpu_xids_total", "XID errors that the driver reported, by number and class",
                     xid.count, std::move(labels));
  }
}

void add_containers(Readings& readings, const gpu::DriverState& state, const std::vector<MemoryUse>& uses,
                    const MemoryWatch& watch) {
  for (const MemoryUse& use : uses) {
    if (use.who.pod.name.empty() || !use.is_current()) {
      continue;
    }
    Labels labels{{"namespace", use.who.pod.namespace_name},
                  {"pod", use.who.pod.name},
                  {"container", use.who.container}};
    for (auto& label : labels_of(state.inventory, use.gpu)) {
      labels.push_back(std::move(label));
    }
    const auto found = state.inventory.find_uuid(use.gpu);
    const double all = found ? state.inventory.gpus[*found].memory_mib * kMib : 0;
    if (!use.who.container.empty()) {
      readings.gauge("tessera_container_gpu_memory_allocated_bytes", "GPU memory allocated to the container",
                     use.allowed_bytes ? static_cast<double>(*use.allowed_bytes) : all, labels);
    }
    readings.gauge("tessera_container_gpu_memory_used_bytes", "GPU memory used by the container's processes",
                   static_cast<double>(use.used_bytes), labels);
    if (use.busy_percent) {
      readings.gauge("tessera_container_gpu_utilization_ratio",
                     "Fraction of time that the container kept the GPU busy", *use.busy_percent / 100.0,
                     labels);
    }
    readings.gauge("tessera_container_gpu_processes", "Processes of the container on the GPU", use.processes,
                   labels);
    readings.gauge("tessera_container_gpu_memory_exceeded",
                   "1 while the container uses more GPU memory than allocated to it",
                   watch.judge().is_over(use) ? 1 : 0, labels);
  }
  readings.counter("tessera_agent_memory_exceeded_total",
                   "Times that a container exceeded the GPU memory allocated to it", watch.counts().over);
  readings.counter("tessera_agent_memory_evictions_total",
                   "Evictions of pods over their GPU memory limit, by result", watch.counts().evicted,
                   {{"result", "evicted"}});
  readings.counter("tessera_agent_memory_evictions_total",
                   "Evictions of pods over their GPU memory limit, by result", watch.counts().refused,
                   {{"result", "refused"}});
}

void add_driver(Readings& readings, const gpu::DriverState& state, const gpu::CallMonitor::Counts& calls,
                bool hangs, std::optional<std::chrono::nanoseconds> sample_age) {
  readings.gauge("tessera_agent_driver_ready", "1 if the NVIDIA driver answers",
                 state.ready && !hangs ? 1 : 0);
  readings.gauge("tessera_agent_driver_hung", "1 while a driver call does not return", hangs ? 1 : 0);
  readings.counter("tessera_agent_driver_calls_total", "Driver calls that returned", calls.calls);
  readings.counter("tessera_agent_driver_failures_total", "Driver calls that returned an error",
                   calls.failures);
  readings.gauge("tessera_agent_gpus_missing", "GPUs that this node had earlier and that are missing now",
                 static_cast<double>(state.gone.size()));
  if (sample_age) {
    readings.gauge("tessera_agent_sample_age_seconds", "Seconds since the driver last reported GPU usage",
                   std::chrono::duration<double>(*sample_age).count());
  }
}

void add_gpu_counts(Readings& readings, const GpuKind::Counts& counts) {
  // Add them with 0 from the start, so that Prometheus can compute rates.
  for (const char* result : {"undecided", "broken_record", "lost_gpu"}) {
    readings.counter("tessera_agent_containers_total", "Containers, by result of Allocate", 0,
                     {{"result", result}});
  }
  readings.counter("tessera_agent_records_repaired_total",
                   "Pod records corrected to match what the containers have", counts.repaired);
}

}  // namespace tessera::agent
