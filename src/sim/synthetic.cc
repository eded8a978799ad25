#include "sim/synthetic.h"

#include <fmt/core.h>

#include <array>
#include <iterator>
#include <span>

#include "sim/random.h"

namespace tessera::sim {

namespace {

struct NodeKind {
  const char* model;
  std::uint32_t gpus;
  std::int64_t cpus;
  std::int64_t memory_gib;
  std::uint32_t weight;
};

constexpr std::array kNodeKinds = {
    NodeKind{"A100", 8, 96, 1024, 40},  // twelve CPUs per GPU: CPUs run out before GPUs
    NodeKind{"H100", 8, 192, 2048, 10}, NodeKind{"V100", 4, 32, 256, 15},
    NodeKind{"T4", 2, 96, 384, 25},     NodeKind{"L40S", 4, 64, 512, 10},
};

struct PodTemplate {
  std::uint32_t gpus;
  std::uint32_t gpu_milli;
  std::int64_t cpu_milli;
  std::int64_t memory_gib;
  const char* models;
  std::uint32_t weight;
};

constexpr std::array kPodTemplates = {
    // Inference on a part of a GPU.
    PodTemplate{1, 150, 2000, 6, "", 40},
    PodTemplate{1, 250, 4000, 12, "", 90},
    PodTemplate{1, 400, 6000, 24, "", 70},
    PodTemplate{1, 450, 8000, 24, "", 90},
    PodTemplate{1, 600, 4000, 32, "", 60},
    PodTemplate{1, 800, 3000, 16, "", 110},
    PodTemplate{1, 500, 4000, 16, "T4", 30},
    // Notebooks and small training.
    PodTemplate{1, 1000, 8000, 48, "", 120},
    PodTemplate{1, 1000, 11000, 64, "", 160},
    PodTemplate{1, 1000, 16000, 96, "", 60},
    PodTemplate{1, 1000, 8000, 48, "V100", 20},
    PodTemplate{1, 1000, 12000, 96, "A100|H100", 30},
    // Training over several GPUs.
    PodTemplate{2, 1000, 20000, 128, "", 20},
    PodTemplate{4, 1000, 32000, 192, "", 12},
    PodTemplate{8, 1000, 88000, 768, "", 12},
    PodTemplate{8, 1000, 96000, 1024, "H100", 2},
    // Without GPUs.
    PodTemplate{0, 0, 4000, 8, "", 80},
    PodTemplate{0, 0, 16000, 32, "", 40},
};

template <class Kind>
const Kind& draw(std::span<const Kind> kinds, Random& random) {
  std::uint64_t all = 0;
  for (const Kind& kind : kinds) {
    all += kind.weight;
  }
  std::uint64_t at = random.below(all);
  for (const Kind& kind : kinds) {
    if (at < kind.weight) {
      return kind;
    }
    at -= kind.weight;
  }
  return kinds.back();
}

std::vector<std::string> words(std::string_view list) {
  std::vector<std::string> models;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find('|'), list.size());
    models.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return models;
}

}  // namespace

Trace synthetic_trace(std::uint32_t nodes, std::uint64_t seed) {
  Random random(seed);
  Trace trace;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    const NodeKind& kind = draw(std::span<const NodeKind>(kNodeKinds), random);
    trace.nodes.push_back({.name = fmt::format("node-{:05}", i),
                           .cpu_milli = kind.cpus * 1000,
                           .memory_mib = kind.memory_gib * 1024,
                           .gpus = kind.gpus,
                           .model = kind.model});
  }
  const std::int64_t capacity = trace.gpu_capacity_milli();
  for (std::int64_t requested = 0; requested < capacity;) {
    const PodTemplate& kind = draw(std::span<const PodTemplate>(kPodTemplates), random);
    trace.pods.push_back({.name = fmt::format("pod-{:07}", trace.pods.size()),
                          .cpu_milli = kind.cpu_milli,
                          .memory_mib = kind.memory_gib * 1024,
                          .gpus = kind.gpus,
                          .gpu_milli = kind.gpu_milli,
                          .models = words(kind.models)});
    requested += trace.pods.back().requested_gpu_milli();
  }
  return trace;
}

}  // namespace tessera::sim
