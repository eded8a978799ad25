#include "topology/topology_json.h"

#include <fmt/core.h>

#include <boost/json.hpp>
#include <functional>
#include <optional>

#include "base/strings.h"

namespace tessera::topology {

namespace json = boost::json;

namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMaxNameBytes = 64;

// Writes names with repetitions shortened: "2*NV2:2 SYS".
class RunWriter {
 public:
  void add(const std::string& name) {
    if (name == name_) {
      ++count_;
      return;
    }
    flush();
    name_ = name;
    count_ = 1;
  }
  std::string text() && {
    flush();
    return std::move(text_);
  }

 private:
  void flush() {
    if (count_ == 0) {
      return;
    }
    text_ += text_.empty() ? "" : " ";
    text_ += count_ == 1 ? name_ : fmt::format("{}*{}", count_, name_);
    count_ = 0;
  }

  std::string text_;
  std::string name_;
  unsigned count_ = 0;
};

// Calls `use` for each of the `expected` names in the text.
Status read_runs(const JsonReader& reader, const std::string& text, std::size_t expected,
                 const std::function<bool(std::size_t, std::string_view)>& use) {
  std::size_t index = 0;
  for (std::string_view word : split_words(text)) {
    std::int64_t times = 1;
    if (const auto star = word.find('*'); star != std::string_view::npos) {
      times = parse_int(word.substr(0, star)).value_or(0);
      word.remove_prefix(star + 1);
    }
    if (times < 1 || times > kMaxGpus) {
      return fail(reader.wrong(fmt::format("has an invalid repeat count for {}", in_quotes(word))));
    }
    for (; times > 0; --times, ++index) {
      if (index < expected && !use(index, word)) {
        return fail(reader.wrong(fmt::format("has {}, which is not a link", in_quotes(word))));
      }
    }
  }
  if (index != expected) {
    return fail(reader.wrong(fmt::format("has {} links, not {}", index, expected)));
  }
  return {};
}

std::string links_of(const Topology& topology, unsigned gpu) {
  RunWriter runs;
  for (unsigned peer = gpu + 1; peer < topology.size(); ++peer) {
    runs.add(full_name(topology.link(gpu, peer)));
  }
  return std::move(runs).text();
}

json::object nic_to_json(const Nic& nic) {
  json::object object;
  object["name"] = nic.name;
  if (!nic.device.empty()) {
    object["device"] = nic.device;
  }
  RunWriter runs;
  for (const PciePath path : nic.paths) {
    runs.add(std::string(to_string(path)));
  }
  object["paths"] = std::move(runs).text();
  return object;
}

Status read_links(const JsonReader& reader, Topology& topology) {
  if (topology.size() < 2 && !reader.has("links")) {
    return {};
  }
  const auto rows = TRY(reader.array("links", kMaxGpus));
  const std::size_t expected = topology.size() > 0 ? topology.size() - 1 : 0;
  if (rows.size() != expected) {
    return fail(
        reader.wrong(fmt::format("has {} rows in \"links\" for {} GPUs", rows.size(), topology.size())));
  }
  for (unsigned gpu = 0; gpu < rows.size(); ++gpu) {
    const std::string text = TRY(rows[gpu].as_text());
    TRY(read_runs(rows[gpu], text, topology.size() - 1 - gpu, [&](std::size_t index, std::string_view name) {
      const auto link = parse_full_name(name);
      if (link) {
        topology.set_link(gpu, gpu + 1 + static_cast<unsigned>(index), *link);
      }
      return link.has_value();
    }));
  }
  return {};
}

// A field with one index list per GPU.
Status read_lists(const JsonReader& reader, std::string_view key, Topology& topology,
                  IndexList GpuPlace::* list) {
  if (!reader.has(key)) {
    return {};
  }
  const auto values = TRY(reader.array(key, kMaxGpus));
  if (values.size() != topology.size()) {
    return fail(reader.wrong(
        fmt::format("has {} entries in \"{}\" for {} GPUs", values.size(), key, topology.size())));
  }
  for (unsigned gpu = 0; gpu < values.size(); ++gpu) {
    auto parsed = IndexList::parse(TRY(values[gpu].as_text()));
    if (!parsed) {
      return fail(values[gpu].wrong(fmt::format("is invalid: {}", parsed.error().text())));
    }
    topology.place(gpu).*list = std::move(*parsed);
  }
  return {};
}

Status read_memory_numa(const JsonReader& reader, Topology& topology) {
  if (!reader.has("gpu_memory_numa")) {
    return {};
  }
  const auto values = TRY(reader.array("gpu_memory_numa", kMaxGpus));
  if (values.size() != topology.size()) {
    return fail(reader.wrong(
        fmt::format("has {} entries in \"gpu_memory_numa\" for {} GPUs", values.size(), topology.size())));
  }
  for (unsigned gpu = 0; gpu < values.size(); ++gpu) {
    topology.place(gpu).memory_numa =
        static_cast<std::int32_t>(TRY(values[gpu].as_integer(-1, IndexList::kMaxIndex)));
  }
  return {};
}

Result<std::string> read_name(const JsonReader& reader, std::string_view key, bool optional) {
  std::string name = optional ? TRY(reader.text_or(key, "")) : TRY(reader.text(key));
  const bool plain = name.find_first_of(" \t\r\n\x1b") == std::string::npos;
  if ((name.empty() && !optional) || name.size() > kMaxNameBytes || !plain) {
    return fail(
        reader.wrong(fmt::format("has {} as \"{}\", which is not a device name", in_quotes(name), key)));
  }
  return name;
}

Status read_nics(const JsonReader& reader, Topology& topology) {
  if (!reader.has("nics")) {
    return {};
  }
  for (const JsonReader& entry : TRY(reader.array("nics", Topology::kMaxNics))) {
    Nic nic;
    nic.name = TRY(read_name(entry, "name", false));
    nic.device = TRY(read_name(entry, "device", true));
    nic.paths.resize(topology.size());
    const std::string text = TRY(entry.text("paths"));
    TRY(read_runs(entry, text, topology.size(), [&](std::size_t index, std::string_view name) {
      const auto path = parse_pcie_path(name);
      nic.paths[index] = path.value_or(PciePath::kUnknown);
      return path.has_value();
    }));
    topology.nics.push_back(std::move(nic));
  }
  return {};
}

}  // namespace

json::value to_json(const Topology& topology) {
  json::object object;
  object["v"] = kVersion;
  object["gpus"] = std::int64_t{topology.size()};
  json::array links;
  json::array cpus;
  json::array numa;
  json::array memory;
  bool has_cpus = false;
  bool has_numa = false;
  bool has_memory = false;
  for (unsigned gpu = 0; gpu < topology.size(); ++gpu) {
    if (gpu + 1 < topology.size()) {
      links.emplace_back(links_of(topology, gpu));
    }
    const GpuPlace& place = topology.place(gpu);
    cpus.emplace_back(place.cpus.text());
    numa.emplace_back(place.numa.text());
    memory.emplace_back(place.memory_numa);
    has_cpus = has_cpus || !place.cpus.empty();
    has_numa = has_numa || !place.numa.empty();
    has_memory = has_memory || place.memory_numa >= 0;
  }
  object["links"] = std::move(links);
  if (has_numa) {
    object["numa"] = std::move(numa);
  }
  if (has_cpus) {
    object["cpus"] = std::move(cpus);
  }
  if (has_memory) {
    object["gpu_memory_numa"] = std::move(memory);
  }
  if (!topology.nics.empty()) {
    json::array nics;
    for (const Nic& nic : topology.nics) {
      nics.push_back(nic_to_json(nic));
    }
    object["nics"] = std::move(nics);
  }
  if (topology.pcie_generation != 0) {
    object["pcie"] = std::int64_t{topology.pcie_generation};
  }
  if (topology.socket_mbps != 0) {
    object["socket_mbps"] = std::int64_t{topology.socket_mbps};
  }
  return object;
}

Result<Topology> topology_from_json(const JsonReader& reader) {
  TRY(reader.integer("v", kVersion, kVersion));
  Topology topology(static_cast<unsigned>(TRY(reader.integer("gpus", 0, kMaxGpus))));
  TRY(read_links(reader, topology));
  TRY(read_lists(reader, "numa", topology, &GpuPlace::numa));
  TRY(read_lists(reader, "cpus", topology, &GpuPlace::cpus));
  TRY(read_memory_numa(reader, topology));
  TRY(read_nics(reader, topology));
  if (reader.has("pcie")) {
    topology.pcie_generation = static_cast<std::uint8_t>(TRY(reader.integer("pcie", 3, 6)));
  }
  if (reader.has("socket_mbps")) {
    topology.socket_mbps = static_cast<std::uint32_t>(TRY(reader.integer("socket_mbps", 1, 10'000'000)));
  }
  return topology;
}

}  // namespace tessera::topology
