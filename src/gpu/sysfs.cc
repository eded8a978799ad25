#include "gpu/sysfs.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "base/strings.h"

namespace tessera::gpu {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxBytes = 64U << 10U;

// Returns the text of a small file, or "" if it cannot be read.
std::string text_of(const std::string& path) {
  const auto text = read_file(path, kMaxBytes);
  return text ? std::string(trim(*text)) : std::string();
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator entry(directory, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    names.push_back(entry->path().filename().string());
  }
  return names;
}

// Returns the PCIe generation of a maximum link speed: "8.0 GT/s PCIe" -> 3. Each generation
// doubles the speed.
std::uint8_t generation_of(std::string_view speed) {
  double transfers = 0;
  const auto [end, error] = std::from_chars(speed.data(), speed.data() + speed.size(), transfers);
  if (error != std::errc() || end == speed.data()) {
    return 0;
  }
  if (transfers >= 63) {
    return 6;
  }
  if (transfers >= 31) {
    return 5;
  }
  if (transfers >= 15) {
    return 4;
  }
  return transfers >= 7 ? 3 : 0;
}

// Returns whether `name` is the address of a PCI device or bridge: "0000:06:00.0".
bool is_pci_address(std::string_view name) {
  return name.size() >= 12 && name[name.size() - 2] == '.' && std::ranges::count(name, ':') == 2;
}

std::vector<std::string> route_of(const fs::path& directory) {
  std::vector<std::string> route;
  for (const auto& part : directory) {
    const std::string name = part.string();
    if (route.empty() ? name.starts_with("pci") && name.find(':') != std::string::npos
                      : is_pci_address(name)) {
      route.push_back(name);
    }
  }
  return route;
}

// Compares runs of digits as numbers: mlx5_2 comes before mlx5_10.
bool natural_less(std::string_view a, std::string_view b) {
  const auto digits = [](std::string_view text) {
    return std::min(text.find_first_not_of("0123456789"), text.size());
  };
  while (!a.empty() && !b.empty()) {
    const std::size_t run_a = digits(a);
    const std::size_t run_b = digits(b);
    if (run_a > 0 && run_b > 0) {
      const auto number_a = parse_int(a.substr(0, run_a)).value_or(0);
      const auto number_b = parse_int(b.substr(0, run_b)).value_or(0);
      if (number_a != number_b) {
        return number_a < number_b;
      }
      a.remove_prefix(run_a);
      b.remove_prefix(run_b);
      continue;
    }
    if (a.front() != b.front()) {
      return a.front() < b.front();
    }
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.size() < b.size();
}

}  // namespace

PciPlace Sysfs::place_at(const std::string& directory) const {
  PciPlace place;
  std::error_code error;
  const fs::path real = fs::canonical(directory, error);
  if (error) {
    return place;
  }
  place.route = route_of(real);
  const std::string base = real.string();
  if (const auto numa = parse_int(text_of(base + "/numa_node")); numa && *numa >= 0 && *numa <= 1023) {
    place.numa = static_cast<std::int32_t>(*numa);
  }
  if (auto cpus = topology::IndexList::parse(text_of(base + "/local_cpulist"))) {
    place.cpus = std::move(*cpus);
  }
  place.pcie_generation = generation_of(text_of(base + "/max_link_speed"));
  // The slot may be slower than the GPU.
  const std::uint8_t slot = generation_of(text_of(real.parent_path().string() + "/max_link_speed"));
  if (slot != 0 && slot < place.pcie_generation) {
    place.pcie_generation = slot;
  }
  const std::string hex = text_of(base + "/class");
  if (hex.starts_with("0x")) {
    std::from_chars(hex.data() + 2, hex.data() + hex.size(), place.pci_class, 16);
  }
  return place;
}

PciPlace Sysfs::pci(const std::string& name) const {
  return place_at(root_ + "/bus/pci/devices/" + name);
}

std::vector<NicPlace> Sysfs::nics() const {
  const std::string directory = root_ + "/class/infiniband";
  std::vector<NicPlace> nics;
  for (const std::string& name : names_in(directory)) {
    // Skip virtual functions: they belong to pods and virtual machines.
    std::error_code ignored;
    if (fs::exists(fmt::format("{}/{}/device/physfn", directory, name), ignored)) {
      continue;
    }
    NicPlace nic{.name = name, .place = place_at(fmt::format("{}/{}/device", directory, name))};
    if (!nic.place.route.empty()) {
      nics.push_back(std::move(nic));
    }
  }
  std::ranges::sort(nics, natural_less, &NicPlace::name);
  return nics;
}

std::vector<std::string> Sysfs::nvidia_devices() const {
  std::vector<std::string> devices;
  for (std::string& name : names_in(root_ + "/bus/pci/drivers/nvidia")) {
    if (is_pci_address(name)) {
      devices.push_back(std::move(name));
    }
  }
  std::ranges::sort(devices);
  return devices;
}

std::string Sysfs::product_name() const {
  return text_of(root_ + "/class/dmi/id/product_name");
}

topology::PciePath path_between(const PciPlace& a, const PciPlace& b) {
  using topology::PciePath;
  std::size_t common = 0;
  while (common < a.route.size() && common < b.route.size() && a.route[common] == b.route[common]) {
    ++common;
  }
  if (common == 0) {
    return a.numa >= 0 && a.numa == b.numa ? PciePath::kNode : PciePath::kSys;
  }
  if (common == 1) {
    return PciePath::kPhb;  // only the root complex is common
  }
  // A switch adds two steps to a route: its upstream port, which both devices share, and one
  // downstream port per device.
  const std::size_t below = std::max(a.route.size(), b.route.size()) - common;
  return below <= 2 ? PciePath::kPix : PciePath::kPxb;
}

}  // namespace tessera::gpu
