#include "topology/link.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "base/strings.h"

namespace tessera::topology {

namespace {

constexpr std::array<std::pair<PciePath, std::string_view>, 7> kPathNames{{
    {PciePath::kUnknown, "-"},
    {PciePath::kSys, "SYS"},
    {PciePath::kNode, "NODE"},
    {PciePath::kPhb, "PHB"},
    {PciePath::kPxb, "PXB"},
    {PciePath::kPix, "PIX"},
    {PciePath::kPsb, "PSB"},
}};

// Parses the NVLink part of a full name: "NV12s:3".
std::optional<Link> parse_nvlinks(std::string_view text) {
  const auto colon = text.find(':');
  if (!text.starts_with("NV") || colon == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view count = text.substr(2, colon - 2);
  Link link;
  if (count.ends_with('s')) {
    link.nvswitch = true;
    count.remove_suffix(1);
  }
  const auto links = parse_int(count);
  const auto generation = parse_int(text.substr(colon + 1));
  if (!links || *links < 1 || *links > kMaxNvlinks || !generation || *generation < 1 ||
      *generation > kMaxNvlinkGeneration) {
    return std::nullopt;
  }
  link.nvlinks = static_cast<std::uint8_t>(*links);
  link.generation = static_cast<std::uint8_t>(*generation);
  return link;
}

}  // namespace

std::string_view to_string(PciePath path) {
  return kPathNames.at(static_cast<std::size_t>(path)).second;
}

std::optional<PciePath> parse_pcie_path(std::string_view text) {
  for (const auto& [path, name] : kPathNames) {
    if (name == text) {
      return path;
    }
  }
  return std::nullopt;
}

std::string short_name(const Link& link) {
  return link.nvlinks > 0 ? fmt::format("NV{}", link.nvlinks) : std::string(to_string(link.path));
}

std::string full_name(const Link& link) {
  if (link.nvlinks == 0) {
    return std::string(to_string(link.path));
  }
  std::string name = fmt::format("NV{}{}:{}", link.nvlinks, link.nvswitch ? "s" : "", link.generation);
  if (link.path != PciePath::kUnknown) {
    name += fmt::format("/{}", to_string(link.path));
  }
  return name;
}

std::optional<Link> parse_full_name(std::string_view text) {
  if (!text.starts_with("NV")) {
    const auto path = parse_pcie_path(text);
    return path ? std::optional(Link{.path = *path}) : std::nullopt;
  }
  const auto slash = text.find('/');
  auto link = parse_nvlinks(text.substr(0, slash));
  if (link && slash != std::string_view::npos) {
    const auto path = parse_pcie_path(text.substr(slash + 1));
    if (!path || *path == PciePath::kUnknown) {
      return std::nullopt;  // an unknown path is omitted, so that each link has exactly one name
    }
    link->path = *path;
  }
  return link;
}

std::string describe(const Link& link) {
  static constexpr std::array<std::string_view, 5> kNumbers = {"Two", "Three", "Four", "Five", "Six"};
  if (link.nvlinks == 1) {
    return "Single NVLink";
  }
  if (link.nvlinks > 1) {
    const std::size_t index = link.nvlinks - 2U;
    return index < kNumbers.size() ? fmt::format("{} NVLinks", kNumbers.at(index))
                                   : fmt::format("{} NVLinks", link.nvlinks);
  }
  switch (link.path) {
    case PciePath::kSys:
      return "Cross CPU socket";
    case PciePath::kNode:
      return "Same CPU socket";
    case PciePath::kPhb:
      return "Host PCI bridge";
    case PciePath::kPxb:
      return "Multiple PCI switches";
    case PciePath::kPix:
      return "Single PCI switch";
    case PciePath::kPsb:
      return "Same board";
    case PciePath::kUnknown:
      break;
  }
  return "Unknown";
}

}  // namespace tessera::topology
