#include "alloc/original_topology.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <span>

#include "alloc/inventory.h"
#include "alloc/names.h"
#include "base/json_reader.h"
#include "base/strings.h"
#include "topology/topo_infer.h"

namespace tessera::alloc {

namespace {

using topology::Link;
using topology::PciePath;

// The numbers of the first design: the PCIe path class, then one more for each NVLink, up to six.
constexpr int kNearestPath = static_cast<int>(PciePath::kPsb);
constexpr int kMostGsocNvlinks = 6;

int gsoc_number(const Link& link) {
  return link.nvlinks > 0 ? kNearestPath + std::min<int>(link.nvlinks, kMostGsocNvlinks)
                          : static_cast<int>(link.path);
}

std::optional<Link> link_of_gsoc(std::string_view text) {
  const auto number = parse_int(text);
  if (!number || *number < 0 || *number > kNearestPath + kMostGsocNvlinks) {
    return std::nullopt;
  }
  return *number > kNearestPath ? Link{.nvlinks = static_cast<std::uint8_t>(*number - kNearestPath)}
                                : Link{.path = static_cast<PciePath>(*number)};
}

// The original plugin writes N-A for links that it has no name for, tessera-agent writes "-".
std::optional<Link> link_of_name(std::string_view text) {
  if (text == "N-A") {
    return Link{};
  }
  if (text.starts_with("NV")) {
    const auto count = parse_int(text.substr(2));
    return count && *count >= 1 && *count <= topology::kMaxNvlinks
               ? std::optional(Link{.nvlinks = static_cast<std::uint8_t>(*count)})
               : std::nullopt;
  }
  const auto path = topology::parse_pcie_path(text);
  return path ? std::optional(Link{.path = *path}) : std::nullopt;
}

// Collects the links of a node.
class Links {
 public:
  explicit Links(unsigned gpus) : topology_(gpus), known_(std::size_t{gpus} * gpus, false) {}

  // Adds the link between two GPUs, whose indices are the two elements of `pair`. Returns what is
  // wrong with it; empty if nothing is.
  std::string add(std::span<const std::string_view> pair, const std::optional<Link>& link) {
    const auto i = pair.size() == 2 ? parse_int(pair[0]) : std::nullopt;
    const auto j = pair.size() == 2 ? parse_int(pair[1]) : std::nullopt;
    if (!i || !j || !link) {
      return "is not a link between two GPUs";
    }
    const auto size = std::int64_t{topology_.size()};
    for (const std::int64_t gpu : {*i, *j}) {
      if (gpu < 0 || gpu >= size) {
        return fmt::format(
            "names GPU {}, but the node's capacity is {} GPUs; restart its device plugin, or remove the "
            "annotation",
            gpu, size);
      }
    }
    if (*i == *j) {
      return "";  // the first design has the diagonal
    }
    const auto low = static_cast<unsigned>(std::min(*i, *j));
    const auto high = static_cast<unsigned>(std::max(*i, *j));
    const std::size_t position = std::size_t{high} * topology_.size() + low;
    if (known_[position] && topology_.link(low, high) != *link) {
      return fmt::format("contradicts another link between GPU {} and GPU {}", low, high);
    }
    known_[position] = true;
    topology_.set_link(low, high, *link);
    return "";
  }

  topology::Topology take() {
    topology::infer_nvlinks(topology_);
    return std::move(topology_);
  }

 private:
  topology::Topology topology_;
  std::vector<bool> known_;
};

// {"GPU_NV1_0_1":"Single NVLink",...}: the key says everything.
Status read_json(std::string_view text, Links& links) {
  const std::string annotation = fmt::format("annotation {}", key::kGpuTopology);
  const auto document = TRY(with_context(parse_json(text, OriginalNode::kMaxBytes), annotation));
  constexpr std::size_t kMostEntries = topology::kMaxGpus * topology::kMaxGpus;
  for (const auto& [name, description] : TRY(JsonReader(document, annotation).as_object(kMostEntries))) {
    TRY(description.as_text());
    const auto parts = split(name, '_');
    const bool named = parts.size() == 4 && parts[0] == "GPU";
    const std::string wrong = links.add(std::span(parts).subspan(std::min<std::size_t>(2, parts.size())),
                                        named ? link_of_name(parts[1]) : std::nullopt);
    if (!wrong.empty()) {
      return fail(ErrorCode::kInvalid, fmt::format("{}: {} {}", annotation, in_quotes(name), wrong));
    }
  }
  return {};
}

// "0_1=7\n0_2=8\n": the annotations GSOC_DEV_<i>_<j>.
Status read_gsoc(std::string_view text, Links& links) {
  if (text.size() > OriginalNode::kMaxBytes) {
    return fail(ErrorCode::kInvalid, fmt::format("the annotations {}* have more than {} bytes",
                                                 key::kGsocLinkPrefix, OriginalNode::kMaxBytes));
  }
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) {
      continue;
    }
    const std::size_t equals = line.find('=');
    const std::string_view pair = line.substr(0, equals);
    const std::string_view number = equals == std::string_view::npos ? "" : line.substr(equals + 1);
    if (const std::string wrong = links.add(split(pair, '_'), link_of_gsoc(number)); !wrong.empty()) {
      return fail(ErrorCode::kInvalid, fmt::format("annotation {}{}: {} {}", key::kGsocLinkPrefix,
                                                   in_quotes(pair), in_quotes(number), wrong));
    }
  }
  return {};
}

}  // namespace

Result<topology::Topology> original_topology(const OriginalNode& node, unsigned gpus) {
  Links links(gpus);
  TRY(node.gpu_topology.empty() ? read_gsoc(node.gsoc_links, links) : read_json(node.gpu_topology, links));
  return links.take();
}

Annotations Inventory::original_annotations() const {
  Annotations annotations;
  boost::json::object links;
  for (unsigned i = 0; i < gpus.size(); ++i) {
    for (unsigned j = i + 1; j < gpus.size(); ++j) {
      const Link& link = topology.link(i, j);
      const std::uint32_t a = gpus[i].index;
      const std::uint32_t b = gpus[j].index;
      annotations[fmt::format("{}{}_{}", key::kGsocLinkPrefix, a, b)] = std::to_string(gsoc_number(link));
      links[fmt::format("GPU_{}_{}_{}", topology::short_name(link), a, b)] = topology::describe(link);
    }
  }
  annotations[std::string(key::kGpuTopology)] = boost::json::serialize(links);
  return annotations;
}

}  // namespace tessera::alloc
