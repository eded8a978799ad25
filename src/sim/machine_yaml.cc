// Parses machine descriptions. The only file of this folder that uses yaml-cpp.
#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <initializer_list>
#include <set>

#include "base/strings.h"
#include "sim/machine.h"
#include "sim/machine_links.h"
#include "topology/topo_text.h"

namespace tessera::sim {

namespace {

using topology::GpuMask;
using topology::PciePath;

// A value of the document, with its path and file for messages.
class Yaml {
 public:
  Yaml(const YAML::Node& node, std::string path, const std::string& file)
      : node_(node), path_(std::move(path)), file_(&file) {}

  [[nodiscard]] Error wrong(std::string_view why) const {
    return {ErrorCode::kInvalid, fmt::format("{}:{}: {}{}{}", *file_, node_.Mark().line + 1, path_,
                                             path_.empty() ? "" : " ", why)};
  }

  [[nodiscard]] bool has(const std::string& key) const { return node_.IsMap() && node_[key].IsDefined(); }

  // Checks that it is a map with no other keys.
  [[nodiscard]] Status map(std::initializer_list<std::string_view> keys) const {
    if (!node_.IsMap()) {
      return fail(wrong(path_.empty() ? "is not a machine description" : "is not a map of keys and values"));
    }
    std::set<std::string> seen;
    for (const auto& entry : node_) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      const Yaml value(entry.first, join(key), *file_);
      if (std::ranges::find(keys, key) == keys.end()) {
        return fail(value.wrong("is not a key of machine descriptions (sim/machines/README.md lists them)"));
      }
      if (!seen.insert(key).second) {
        return fail(value.wrong("occurs twice"));
      }
    }
    return {};
  }

  [[nodiscard]] Result<Yaml> at(const std::string& key) const {
    if (!has(key)) {
      return fail(wrong(fmt::format("has no {}", in_quotes(key))));
    }
    return Yaml(node_[key], join(key), *file_);
  }

  [[nodiscard]] Result<std::vector<Yaml>> list(const std::string& key, std::size_t most) const {
    std::vector<Yaml> entries;
    if (!has(key)) {
      return entries;
    }
    const Yaml value = TRY(at(key));
    if (!value.node_.IsSequence() || value.node_.size() > most) {
      return fail(value.wrong(fmt::format("is not a list of at most {} entries", most)));
    }
    for (std::size_t i = 0; i < value.node_.size(); ++i) {
      entries.emplace_back(value.node_[i], fmt::format("{}[{}]", value.path_, i), *file_);
    }
    return entries;
  }

  [[nodiscard]] Result<std::string> text() const {
    if (!node_.IsScalar() || node_.Scalar().empty()) {
      return fail(wrong("is not a text"));
    }
    return node_.Scalar();
  }
  [[nodiscard]] Result<std::string> text(const std::string& key) const { return TRY(at(key)).text(); }

  [[nodiscard]] Result<std::int64_t> integer(std::int64_t least, std::int64_t most) const {
    const auto number = node_.IsScalar() ? parse_int(node_.Scalar()) : std::nullopt;
    if (!number || *number < least || *number > most) {
      return fail(wrong(fmt::format("is not a whole number from {} to {}", least, most)));
    }
    return *number;
  }
  [[nodiscard]] Result<std::int64_t> integer(const std::string& key, std::int64_t least,
                                             std::int64_t most) const {
    return TRY(at(key)).integer(least, most);
  }

  [[nodiscard]] Result<bool> boolean_or(const std::string& key, bool otherwise) const {
    if (!has(key)) {
      return otherwise;
    }
    const Yaml value = TRY(at(key));
    const std::string word = value.node_.IsScalar() ? value.node_.Scalar() : "";
    if (word != "true" && word != "false") {
      return fail(value.wrong("is neither true nor false"));
    }
    return word == "true";
  }

  // A list of GPUs, "0-3,6", of a machine with `total` GPUs.
  [[nodiscard]] Result<GpuMask> gpus(unsigned total) const {
    const std::string list = TRY(text());
    const auto mask = topology::parse_gpu_list(list);
    if (!mask) {
      return fail(wrong(fmt::format("is invalid: {}", mask.error().text())));
    }
    if ((*mask & ~topology::first_gpus(total)) != 0) {
      return fail(wrong(fmt::format("is {}, but the machine has {} GPUs", in_quotes(list), total)));
    }
    return *mask;
  }

  [[nodiscard]] Result<topology::IndexList> index_list(const std::string& key) const {
    const Yaml value = TRY(at(key));
    auto list = topology::IndexList::parse(TRY(value.text()));
    if (!list) {
      return fail(value.wrong(fmt::format("is invalid: {}", list.error().text())));
    }
    return std::move(*list);
  }

 private:
  [[nodiscard]] std::string join(const std::string& key) const {
    return path_.empty() ? key : fmt::format("{}.{}", path_, key);
  }

  YAML::Node node_;
  std::string path_;
  const std::string* file_;
};

// "0000:06:00.0", or with eight digits of domain as NVML prints it.
Result<std::string> read_bus_id(const Yaml& yaml) {
  const std::string text = TRY(yaml.text());
  static constexpr std::string_view kShape = "dddddddd:dd:dd.d";
  std::string full = text.size() + 4 == kShape.size() ? "0000" + text : text;
  bool good = full.size() == kShape.size();
  for (std::size_t i = 0; good && i < full.size(); ++i) {
    good = kShape[i] == 'd' ? std::isxdigit(static_cast<unsigned char>(full[i])) != 0 : full[i] == kShape[i];
  }
  if (!good) {
    return fail(yaml.wrong(fmt::format("is {}, not a PCI address like 0000:06:00.0", in_quotes(text))));
  }
  return full;
}

Status read_gpu_group(const Yaml& yaml, std::vector<MachineGpu>& gpus) {
  TRY(yaml.map({"count", "model", "memory_mib", "reserved_mib", "compute", "pci", "minors"}));
  const auto count = static_cast<std::size_t>(TRY(yaml.integer("count", 1, topology::kMaxGpus)));
  MachineGpu gpu;
  gpu.model = TRY(yaml.text("model"));
  gpu.memory_mib = static_cast<std::uint32_t>(TRY(yaml.integer("memory_mib", 1, 1 << 24)));
  gpu.reserved_mib = static_cast<std::uint32_t>(TRY(yaml.integer("reserved_mib", 0, gpu.memory_mib)));
  gpu.compute = TRY(yaml.text("compute"));
  const auto addresses = TRY(yaml.list("pci", topology::kMaxGpus));
  const auto minors = TRY(yaml.list("minors", topology::kMaxGpus));
  if ((yaml.has("pci") && addresses.size() != count) || (yaml.has("minors") && minors.size() != count)) {
    return fail(
        yaml.wrong(fmt::format("has {} GPUs, but a different number of entries in pci or minors", count)));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = gpus.size();
    gpu.minor = static_cast<std::int32_t>(index);
    gpu.pci_bus_id = fmt::format("00000000:{:02X}:00.0", 1 + 3 * index);
    if (!minors.empty()) {
      gpu.minor = static_cast<std::int32_t>(TRY(minors[i].integer(0, 255)));
    }
    if (!addresses.empty()) {
      gpu.pci_bus_id = TRY(read_bus_id(addresses[i]));
    }
    gpus.push_back(gpu);
  }
  return {};
}

Result<std::vector<MachineGpu>> read_gpus(const Yaml& root) {
  std::vector<MachineGpu> gpus;
  for (const Yaml& group : TRY(root.list("gpus", topology::kMaxGpus))) {
    TRY(read_gpu_group(group, gpus));
  }
  if (gpus.empty() || gpus.size() > topology::kMaxGpus) {
    return fail(
        root.wrong(fmt::format("describes {} GPUs; a machine has 1 to {}", gpus.size(), topology::kMaxGpus)));
  }
  std::set<std::string> addresses;
  std::set<std::int32_t> minors;
  for (const MachineGpu& gpu : gpus) {
    if (!addresses.insert(gpu.pci_bus_id).second || !minors.insert(gpu.minor).second) {
      return fail(
          root.wrong(fmt::format("gives PCI address {} or minor {} to two GPUs", gpu.pci_bus_id, gpu.minor)));
    }
  }
  return gpus;
}

Status read_numa(const Yaml& root, topology::Topology& topology) {
  if (!root.has("numa")) {
    return {};
  }
  GpuMask placed = 0;
  for (unsigned gpu = 0; gpu < topology.size(); ++gpu) {
    topology.place(gpu) = {};
  }
  for (const Yaml& node : TRY(root.list("numa", 64))) {
    TRY(node.map({"id", "cpus", "gpus"}));
    const auto id = static_cast<std::uint32_t>(TRY(node.integer("id", 0, 1023)));
    const topology::IndexList cpus = TRY(node.index_list("cpus"));
    const Yaml list = TRY(node.at("gpus"));
    const GpuMask gpus = TRY(list.gpus(topology.size()));
    if ((gpus & placed) != 0) {
      return fail(list.wrong(fmt::format("lists GPU {} a second time", topology::gpu_list(gpus & placed))));
    }
    placed |= gpus;
    for (const unsigned gpu : topology::GpuIndices(gpus)) {
      topology.place(gpu).cpus = cpus;
      topology.place(gpu).numa = topology::IndexList::of(id);
    }
  }
  return {};
}

Status read_nics(const Yaml& root, topology::Topology& topology) {
  if (!root.has("nics")) {
    return {};
  }
  topology.nics.clear();
  for (const Yaml& entry : TRY(root.list("nics", topology::Topology::kMaxNics))) {
    TRY(entry.map({"name", "device", "numa", "psb", "pix", "pxb", "phb"}));
    NicRule nic;
    nic.name = TRY(entry.text("name"));
    if (entry.has("device")) {
      nic.device = TRY(entry.text("device"));
    }
    if (entry.has("numa")) {
      nic.numa = static_cast<std::int32_t>(TRY(entry.integer("numa", 0, 1023)));
    }
    for (const auto& [key, path] : {std::pair{"psb", PciePath::kPsb}, std::pair{"pix", PciePath::kPix},
                                    std::pair{"pxb", PciePath::kPxb}, std::pair{"phb", PciePath::kPhb}}) {
      if (entry.has(key)) {
        const Yaml list = TRY(entry.at(key));
        nic.near.emplace_back(path, TRY(list.gpus(topology.size())));
      }
    }
    topology.nics.push_back(make_nic(nic, topology));
  }
  return {};
}

Result<LinkRule> read_rule(const Yaml& yaml, unsigned gpus) {
  TRY(yaml.map({"nvlink", "pcie", "groups"}));
  if (yaml.has("nvlink") == yaml.has("pcie")) {
    return fail(yaml.wrong("must have either nvlink or pcie"));
  }
  LinkRule rule;
  if (yaml.has("nvlink")) {
    rule.nvlinks = static_cast<std::uint8_t>(TRY(yaml.integer("nvlink", 1, topology::kMaxNvlinks)));
  } else {
    const Yaml value = TRY(yaml.at("pcie"));
    const std::string name = TRY(value.text());
    const auto path = topology::parse_pcie_path(name);
    if (!path || *path == PciePath::kUnknown) {
      return fail(value.wrong(fmt::format("is {}, not SYS, NODE, PHB, PXB, PIX or PSB", in_quotes(name))));
    }
    rule.path = *path;
  }
  for (const Yaml& group : TRY(yaml.list("groups", 4096))) {
    rule.groups.push_back(TRY(group.gpus(gpus)));
  }
  if (!yaml.has("groups")) {
    rule.groups.push_back(topology::first_gpus(gpus));
  }
  return rule;
}

Result<LinkRules> read_rules(const Yaml& links, unsigned gpus) {
  LinkRules rules;
  rules.nvswitch = TRY(links.boolean_or("nvswitch", false));
  if (links.has("nvlink_generation")) {
    rules.nvlink_generation =
        static_cast<std::uint8_t>(TRY(links.integer("nvlink_generation", 1, topology::kMaxNvlinkGeneration)));
  }
  for (const Yaml& entry : TRY(links.list("rules", 256))) {
    rules.rules.push_back(TRY(read_rule(entry, gpus)));
    if (rules.rules.back().nvlinks > 0 && rules.nvlink_generation == 0) {
      return fail(entry.wrong("names NVLinks, so links.nvlink_generation is needed"));
    }
  }
  return rules;
}

// Returns the topology of links.topo or links.matrix; without either, GPUs without links.
Result<topology::Topology> read_matrix(const Yaml& links, unsigned gpus, const ReadBeside& read_beside) {
  if (links.has("topo") && links.has("matrix")) {
    return fail(links.wrong("has both topo and matrix; one of them is enough"));
  }
  if (!links.has("topo") && !links.has("matrix")) {
    return topology::Topology(gpus);
  }
  const Yaml source = TRY(links.at(links.has("topo") ? "topo" : "matrix"));
  std::string text = TRY(source.text());
  if (links.has("topo")) {
    auto read = read_beside(text);
    if (!read) {
      return fail(source.wrong(fmt::format("cannot be read: {}", read.error().text())));
    }
    text = std::move(*read);
  }
  auto parsed = topology::parse_topo_text(text);
  if (!parsed) {
    return fail(source.wrong(fmt::format("is not a matrix: {}", parsed.error().text())));
  }
  if (parsed->topology.size() != gpus) {
    return fail(
        source.wrong(fmt::format("shows {} GPUs, but the machine has {}", parsed->topology.size(), gpus)));
  }
  return std::move(parsed->topology);
}

Status read_links(const Yaml& root, unsigned gpus, const ReadBeside& read_beside,
                  topology::Topology& topology) {
  const Yaml links = TRY(root.at("links"));
  TRY(links.map(
      {"topo", "matrix", "nvlink_generation", "nvswitch", "rules", "pcie_generation", "socket_mbps"}));
  topology = TRY(read_matrix(links, gpus, read_beside));
  apply_rules(TRY(read_rules(links, gpus)), topology);
  if (links.has("pcie_generation")) {
    topology.pcie_generation = static_cast<std::uint8_t>(TRY(links.integer("pcie_generation", 3, 6)));
  }
  if (links.has("socket_mbps")) {
    topology.socket_mbps = static_cast<std::uint32_t>(TRY(links.integer("socket_mbps", 1, 10'000'000)));
  }
  return {};
}

// "dgx1v" of "machines/dgx1v.yaml".
std::string name_of(const std::string& file) {
  const auto slash = file.rfind('/');
  const std::string base = slash == std::string::npos ? file : file.substr(slash + 1);
  return base.ends_with(".yaml") ? base.substr(0, base.size() - 5) : base;
}

Result<Machine> read_machine(const Yaml& root, const std::string& file, const ReadBeside& read_beside) {
  TRY(root.map({"v", "about", "driver", "cuda", "cpus", "memory_gib", "pods", "uuid_seed", "gpus", "numa",
                "nics", "links"}));
  TRY(root.integer("v", 1, 1));
  Machine machine;
  machine.name = name_of(file);
  machine.about = TRY(root.text("about"));
  machine.driver = TRY(root.text("driver"));
  machine.cuda = TRY(root.text("cuda"));
  machine.cpus = static_cast<std::uint32_t>(TRY(root.integer("cpus", 1, 1 << 20)));
  machine.memory_mib = static_cast<std::uint64_t>(TRY(root.integer("memory_gib", 1, 1 << 20))) * 1024;
  if (root.has("pods")) {
    machine.pods = static_cast<std::uint32_t>(TRY(root.integer("pods", 1, 100'000)));
  }
  machine.uuid_seed = machine.name;
  if (root.has("uuid_seed")) {
    machine.uuid_seed = TRY(root.text("uuid_seed"));
  }
  machine.gpus = TRY(read_gpus(root));
  TRY(read_links(root, static_cast<unsigned>(machine.gpus.size()), read_beside, machine.topology));
  TRY(read_numa(root, machine.topology));
  TRY(read_nics(root, machine.topology));
  return machine;
}

}  // namespace

Result<Machine> parse_machine(std::string_view yaml, const std::string& file, const ReadBeside& read_beside) {
  try {
    return read_machine(Yaml(YAML::Load(std::string(yaml)), "", file), file, read_beside);
  } catch (const YAML::Exception& problem) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}:{}: not YAML: {}", file, problem.mark.line + 1, problem.msg));
  }
}

}  // namespace tessera::sim
