#include "sim/machine.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/file.h"
#include "base/nearest_name.h"
#include "base/strings.h"
#include "sim/builtin_files.h"

namespace tessera::sim {

namespace {

constexpr std::string_view kYaml = ".yaml";
constexpr std::size_t kMaxBytes = 1U << 20U;

// Returns a 64-bit hash: FNV-1a, then the finalizer of SplitMix64.
std::uint64_t scrambled(std::string_view text, std::uint64_t salt) {
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ salt;
  for (const char c : text) {
    hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ULL;
  }
  hash = (hash ^ (hash >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  hash = (hash ^ (hash >> 27U)) * 0x94d049bb133111ebULL;
  return hash ^ (hash >> 31U);
}

const BuiltinFile* find_builtin(std::string_view file) {
  const auto files = builtin_files();
  const auto found = std::ranges::find(files, file, &BuiltinFile::name);
  return found == files.end() ? nullptr : &*found;
}

Result<Machine> load_file(const std::string& path) {
  const std::string text = TRY(read_file(path, kMaxBytes));
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  return parse_machine(text, path,
                       [&](const std::string& file) { return read_file(directory + file, kMaxBytes); });
}

Result<std::string> read_builtin(const std::string& file) {
  const BuiltinFile* found = find_builtin(file);
  if (found == nullptr) {
    return fail(ErrorCode::kNotFound, fmt::format("there is no built-in file {}", in_quotes(file)));
  }
  return std::string(found->text);
}

}  // namespace

std::string Machine::gpu_uuid(std::string_view node, std::size_t gpu) const {
  const std::string identity = fmt::format("{}/{}/{}", uuid_seed, node, gpu);
  const std::uint64_t high = scrambled(identity, 1);
  const std::uint64_t low = scrambled(identity, 2);
  return fmt::format("GPU-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32U, (high >> 16U) & 0xffffU,
                     high & 0xffffU, low >> 48U, low & 0xffff'ffff'ffffULL);
}

alloc::Inventory Machine::inventory(std::string_view node, alloc::Unit unit) const {
  alloc::Inventory inventory;
  inventory.unit = unit;
  inventory.driver = driver;
  inventory.machine = name;
  inventory.topology = topology;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    inventory.gpus.push_back(alloc::Gpu{.uuid = gpu_uuid(node, i),
                                        .index = static_cast<std::uint32_t>(i),
                                        .minor = gpus[i].minor,
                                        .model = gpus[i].model,
                                        .memory_mib = gpus[i].memory_mib,
                                        .reserved_mib = gpus[i].reserved_mib,
                                        .pci_bus_id = gpus[i].pci_bus_id});
  }
  return inventory;
}

Result<Machine> load_machine(const std::string& name_or_path) {
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(kYaml)) {
    return load_file(name_or_path);
  }
  const std::string file = name_or_path + std::string(kYaml);
  if (const BuiltinFile* builtin = find_builtin(file)) {
    return parse_machine(builtin->text, file, read_builtin);
  }
  const std::vector<std::string> names = builtin_machines();
  const std::string meant =
      did_you_mean(name_or_path, std::vector<std::string_view>(names.begin(), names.end()));
  return fail(ErrorCode::kNotFound, fmt::format("there is no machine {}{} built-in machines are {}; or use "
                                                "the path of a description (./my-box.yaml)",
                                                in_quotes(name_or_path),
                                                meant.empty() ? "; the" : meant + " The", join_words(names)));
}

std::vector<std::string> builtin_machines() {
  std::vector<std::string> names;
  for (const BuiltinFile& file : builtin_files()) {
    if (file.name.ends_with(kYaml)) {
      names.emplace_back(file.name.substr(0, file.name.size() - kYaml.size()));
    }
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace tessera::sim
