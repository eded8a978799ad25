#include "sim/trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "base/file.h"
#include "base/strings.h"
#include "sim/csv.h"
#include "topology/gpu_mask.h"

namespace tessera::sim {

namespace {

constexpr std::int64_t kMostCpuMilli = 1'000'000'000;
constexpr std::int64_t kMostMemoryMib = std::int64_t{1} << 40U;
constexpr std::size_t kMostNodes = 100'000;
constexpr std::size_t kMostPods = 5'000'000;
constexpr std::size_t kMostModels = 64;

std::vector<std::string> parse_models(std::string_view list) {
  std::vector<std::string> models;
  for (const std::string_view model : split(list, '|')) {
    if (!trim(model).empty() && models.size() < kMostModels) {
      models.emplace_back(trim(model));
    }
  }
  std::ranges::sort(models);
  const auto repeated = std::ranges::unique(models);
  models.erase(repeated.begin(), repeated.end());
  return models;
}

}  // namespace

std::int64_t Trace::gpu_capacity_milli() const {
  std::int64_t sum = 0;
  for (const TraceNode& node : nodes) {
    sum += node.gpus * kGpuMilli;
  }
  return sum;
}

std::int64_t Trace::requested_gpu_milli() const {
  std::int64_t sum = 0;
  for (const TracePod& pod : pods) {
    sum += pod.requested_gpu_milli();
  }
  return sum;
}

Result<std::vector<TraceNode>> parse_nodes(std::string_view csv) {
  enum : std::uint8_t { kName, kCpu, kMemory, kGpus, kModel };
  CsvTable table = TRY(CsvTable::open(csv, {"sn", "cpu_milli", "memory_mib", "gpu"}, {"model"}));
  std::vector<TraceNode> nodes;
  std::unordered_set<std::string> names;
  while (TRY(table.next())) {
    if (nodes.size() == kMostNodes) {
      return fail(ErrorCode::kInvalid, fmt::format("has more than {} nodes", kMostNodes));
    }
    TraceNode node;
    node.name = trim(table.text(kName));
    if (node.name.empty()) {
      return fail(table.wrong(kName, "a node without a name"));
    }
    if (!names.insert(node.name).second) {
      return fail(table.wrong(kName, fmt::format("{} is listed twice", in_quotes(node.name))));
    }
    node.cpu_milli = TRY(table.integer(kCpu, 0, kMostCpuMilli));
    node.memory_mib = TRY(table.integer(kMemory, 0, kMostMemoryMib));
    node.gpus = static_cast<std::uint32_t>(TRY(table.integer(kGpus, 0, topology::kMaxGpus)));
    node.model = trim(table.text(kModel));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Result<std::vector<TracePod>> parse_pods(std::string_view csv) {
  enum : std::uint8_t { kName, kCpu, kMemory, kGpus, kGpuMilliColumn, kModels };
  CsvTable table =
      TRY(CsvTable::open(csv, {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}, {"gpu_spec"}));
  std::vector<TracePod> pods;
  while (TRY(table.next())) {
    if (pods.size() == kMostPods) {
      return fail(ErrorCode::kInvalid, fmt::format("has more than {} pods", kMostPods));
    }
    TracePod pod;
    pod.name = trim(table.text(kName));
    pod.cpu_milli = TRY(table.integer(kCpu, 0, kMostCpuMilli));
    pod.memory_mib = TRY(table.integer(kMemory, 0, kMostMemoryMib));
    pod.gpus = static_cast<std::uint32_t>(TRY(table.integer(kGpus, 0, topology::kMaxGpus)));
    pod.gpu_milli = static_cast<std::uint32_t>(TRY(table.integer(kGpuMilliColumn, 0, kGpuMilli)));
    if ((pod.gpus == 0) != (pod.gpu_milli == 0)) {
      return fail(table.wrong(kGpuMilliColumn, fmt::format("is {} for {} GPUs; either both or none must be 0",
                                                           pod.gpu_milli, pod.gpus)));
    }
    pod.models = parse_models(table.text(kModels));
    pods.push_back(std::move(pod));
  }
  return pods;
}

Result<Trace> read_trace(const std::string& nodes_path, const std::string& pods_path) {
  Trace trace;
  const std::string nodes = TRY(read_file(nodes_path));
  const std::string pods = TRY(read_file(pods_path, std::size_t{1} << 30U));
  trace.nodes = TRY(with_context(parse_nodes(nodes), nodes_path));
  trace.pods = TRY(with_context(parse_pods(pods), pods_path));
  if (trace.gpu_capacity_milli() == 0) {
    return fail(ErrorCode::kInvalid, nodes_path + ": no node has a GPU; there is nothing to allocate");
  }
  if (trace.requested_gpu_milli() == 0) {
    return fail(ErrorCode::kInvalid, pods_path + ": no pod requests a GPU; there is nothing to allocate");
  }
  return trace;
}

}  // namespace tessera::sim
