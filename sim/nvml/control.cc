#include "control.h"

#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/strings.h"

namespace tessera::nvml_sim {

namespace {

namespace abi = gpu::abi;

constexpr std::size_t kMaxEntries = 4096;

Error wrong(const YAML::Node& node, std::string_view what) {
  return {ErrorCode::kInvalid, fmt::format("control file line {}: {}", node.Mark().line + 1, what)};
}

Result<std::int64_t> integer(const YAML::Node& node, std::string_view name, std::int64_t least,
                             std::int64_t most) {
  const auto number = node.IsScalar() ? parse_int(node.Scalar()) : std::nullopt;
  if (!number || *number < least || *number > most) {
    return fail(wrong(node, fmt::format("{} is not a whole number from {} to {}", name, least, most)));
  }
  return *number;
}

Result<bool> boolean(const YAML::Node& node, std::string_view name) {
  const std::string word = node.IsScalar() ? node.Scalar() : "";
  if (word != "true" && word != "false") {
    return fail(wrong(node, fmt::format("{} is neither true nor false", name)));
  }
  return word == "true";
}

struct Word {
  std::string_view text;
  std::int64_t value;
};

// Reads one of the given words, or a number.
Result<std::int64_t> word_or_number(const YAML::Node& node, std::string_view name,
                                    std::span<const Word> words, std::int64_t most) {
  for (const Word& word : words) {
    if (node.IsScalar() && node.Scalar() == word.text) {
      return word.value;
    }
  }
  return integer(node, name, 0, most);
}

constexpr std::array kInitWords = std::to_array<Word>({
    {"ok", abi::kSuccess},
    {"no-permission", abi::kNoPermission},
    {"driver-not-loaded", abi::kDriverNotLoaded},
    {"version-mismatch", abi::kLibRmVersionMismatch},
});
constexpr std::array kRecoveryWords = std::to_array<Word>({
    {"none", abi::kRecoveryNone},
    {"reset", abi::kRecoveryGpuReset},
    {"reboot", abi::kRecoveryNodeReboot},
    {"drain", abi::kRecoveryDrainP2p},
    {"drain-and-reset", abi::kRecoveryDrainAndReset},
});
constexpr std::array kFabricWords = std::to_array<Word>({
    {"not-started", abi::kFabricNotStarted},
    {"in-progress", abi::kFabricInProgress},
    {"completed", abi::kFabricCompleted},
});

Result<std::vector<YAML::Node>> list(const YAML::Node& node, std::string_view name) {
  if (!node.IsSequence() || node.size() > kMaxEntries) {
    return fail(wrong(node, fmt::format("{} is not a list of at most {} entries", name, kMaxEntries)));
  }
  return std::vector<YAML::Node>(node.begin(), node.end());
}

struct Entry {
  std::string key;
  YAML::Node value;
};

Result<std::vector<Entry>> map(const YAML::Node& node, std::string_view name) {
  if (!node.IsMap() || node.size() > kMaxEntries) {
    return fail(wrong(node, fmt::format("{} is not a map of keys and values", name)));
  }
  std::vector<Entry> entries;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) {
      return fail(wrong(node, fmt::format("{} has a key that is not a string", name)));
    }
    entries.push_back({.key = entry.first.Scalar(), .value = entry.second});
  }
  return entries;
}

Result<unsigned> gpu_number(const YAML::Node& node, std::string_view text, unsigned gpus) {
  const auto number = parse_int(text);
  if (!number || *number < 0 || *number >= gpus) {
    return fail(
        wrong(node, fmt::format("{} is not a GPU of this machine, which has {}", in_quotes(text), gpus)));
  }
  return static_cast<unsigned>(*number);
}

Result<std::set<std::string, std::less<>>> function_names(const YAML::Node& node, std::string_view name) {
  std::set<std::string, std::less<>> names;
  for (const YAML::Node& entry : TRY(list(node, name))) {
    if (!entry.IsScalar() || !entry.Scalar().starts_with("nvml")) {
      return fail(wrong(entry, fmt::format("{} has an entry that is not an NVML function", name)));
    }
    names.insert(entry.Scalar());
  }
  return names;
}

Result<std::vector<SimProcess>> processes(const YAML::Node& node) {
  std::vector<SimProcess> result;
  for (const YAML::Node& entry : TRY(list(node, "processes"))) {
    SimProcess process;
    for (const auto& [key, value] : TRY(map(entry, "a process"))) {
      if (key == "pid") {
        process.pid = static_cast<std::uint32_t>(TRY(integer(value, key, 1, UINT32_MAX)));
      } else if (key == "memory_mib") {
        process.memory_mib = static_cast<std::uint64_t>(TRY(integer(value, key, 0, 1 << 24)));
      } else if (key == "mps") {
        process.mps = TRY(boolean(value, key));
      } else if (key == "busy_percent") {
        process.busy_percent = static_cast<unsigned>(TRY(integer(value, key, 0, 100)));
      } else {
        return fail(wrong(value, fmt::format("{} is not a key of a process; use pid, memory_mib, mps or "
                                             "busy_percent",
                                             in_quotes(key))));
      }
    }
    result.push_back(process);
  }
  return result;
}

Result<GpuControl> gpu_control(const YAML::Node& node) {
  GpuControl gpu;
  for (const auto& [key, value] : TRY(map(node, "a GPU"))) {
    if (key == "lost") {
      gpu.lost = TRY(boolean(value, key));
    } else if (key == "mig") {
      gpu.mig = TRY(boolean(value, key));
    } else if (key == "ecc") {
      gpu.ecc = static_cast<std::uint64_t>(TRY(integer(value, key, 0, 1 << 30)));
    } else if (key == "remap_failed") {
      gpu.remap_failed = TRY(boolean(value, key));
    } else if (key == "recovery_action") {
      gpu.recovery_action = static_cast<std::uint32_t>(TRY(word_or_number(value, key, kRecoveryWords, 255)));
    } else if (key == "fabric") {
      gpu.fabric = static_cast<std::uint8_t>(TRY(word_or_number(value, key, kFabricWords, 3)));
    } else if (key == "busy_percent") {
      gpu.busy_percent = static_cast<unsigned>(TRY(integer(value, key, 0, 100)));
    } else if (key == "nvlinks_down") {
      for (const YAML::Node& link : TRY(list(value, key))) {
        gpu.nvlinks_down.insert(static_cast<unsigned>(TRY(integer(link, key, 0, abi::kMaxLinks - 1))));
      }
    } else if (key == "processes") {
      gpu.processes = TRY(processes(value));
    } else {
      return fail(wrong(value, fmt::format("{} is not a key of a GPU", in_quotes(key))));
    }
  }
  return gpu;
}

Result<SimEvent> event(const YAML::Node& node, unsigned gpus) {
  SimEvent result;
  bool has_gpu = false;
  for (const auto& [key, value] : TRY(map(node, "an event"))) {
    if (key == "gpu") {
      result.gpu = TRY(gpu_number(value, value.IsScalar() ? value.Scalar() : "", gpus));
      has_gpu = true;
    } else if (key == "xid") {
      result.type = abi::kEventXid;
      result.data = static_cast<std::uint64_t>(TRY(integer(value, key, 1, 99'999)));
    } else if (key == "ecc" && value.IsScalar() && value.Scalar() == "double") {
      result.type = abi::kEventDoubleBitEcc;
    } else if (key == "type") {
      result.type = static_cast<std::uint64_t>(TRY(integer(value, key, 1, 0xFFFF)));
    } else {
      return fail(wrong(
          value,
          fmt::format("{} is not a key of an event; use gpu and xid, ecc: double or type", in_quotes(key))));
    }
  }
  if (!has_gpu || result.type == 0) {
    return fail(wrong(node, "an event needs a gpu and an xid"));
  }
  return result;
}

// Reads the GPU order; each GPU may occur only once.
Result<std::vector<unsigned>> order(const YAML::Node& node, unsigned gpus) {
  std::vector<unsigned> result;
  for (const YAML::Node& entry : TRY(list(node, "order"))) {
    const unsigned gpu = TRY(gpu_number(entry, entry.IsScalar() ? entry.Scalar() : "", gpus));
    if (std::ranges::find(result, gpu) != result.end()) {
      return fail(wrong(entry, fmt::format("order names GPU {} twice", gpu)));
    }
    result.push_back(gpu);
  }
  return result;
}

Status read_key(const std::string& key, const YAML::Node& value, unsigned gpus, Control& control) {
  if (key == "init") {
    control.init = static_cast<abi::Return>(TRY(word_or_number(value, key, kInitWords, 999)));
  } else if (key == "missing") {
    control.missing = TRY(function_names(value, key));
  } else if (key == "hang") {
    control.hang = TRY(function_names(value, key));
  } else if (key == "slow") {
    for (const auto& [function, ms] : TRY(map(value, key))) {
      control.slow[function] = static_cast<unsigned>(TRY(integer(ms, key, 0, 3'600'000)));
    }
  } else if (key == "order") {
    control.order = TRY(order(value, gpus));
  } else if (key == "removed") {
    for (const YAML::Node& entry : TRY(list(value, key))) {
      control.removed.insert(TRY(gpu_number(entry, entry.IsScalar() ? entry.Scalar() : "", gpus)));
    }
  } else if (key == "gpus") {
    for (const auto& [number, gpu] : TRY(map(value, key))) {
      control.gpus[TRY(gpu_number(gpu, number, gpus))] = TRY(gpu_control(gpu));
    }
  } else if (key == "events") {
    for (const YAML::Node& entry : TRY(list(value, key))) {
      control.events.push_back(TRY(event(entry, gpus)));
    }
  } else {
    return fail(wrong(value, fmt::format("{} is not a key of the control file; use init, missing, hang, "
                                         "slow, order, removed, gpus or events",
                                         in_quotes(key))));
  }
  return {};
}

}  // namespace

const GpuControl& Control::gpu(unsigned position) const {
  static const GpuControl kHealthy;
  const auto found = gpus.find(position);
  return found == gpus.end() ? kHealthy : found->second;
}

Result<Control> Control::parse(std::string_view yaml, unsigned gpus) {
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    Control control;
    if (root.IsNull()) {
      return control;
    }
    for (const auto& [key, value] : TRY(map(root, "the control file"))) {
      // A key may have no value, for example if its entries are commented out.
      if (!value.IsNull()) {
        TRY(read_key(key, value, gpus, control));
      }
    }
    return control;
  } catch (const YAML::Exception& error) {
    return fail(ErrorCode::kInvalid, fmt::format("control file: {}", error.what()));
  }
}

}  // namespace tessera::nvml_sim
