// The picture of `tessera topo -o svg`: GPUs on a circle, grouped by NUMA node. Links are chords
// whose width shows their speed, NVSwitches are a hub. Chosen GPUs and their ring are highlighted,
// taken GPUs are greyed out.
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <ostream>

#include "cli/machine/topo.h"
#include "topology/bandwidth.h"

namespace tessera::cli {

namespace {

using topology::Link;
using topology::Mbps;
using topology::PciePath;
using topology::Topology;

constexpr double kCentreX = 310;
constexpr double kCentreY = 345;
constexpr double kRadius = 205;
constexpr int kLegendX = 630;

struct Point {
  double x = 0;
  double y = 0;
};

Point at_angle(double angle, double radius) {
  return {kCentreX + radius * std::cos(angle), kCentreY + radius * std::sin(angle)};
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

// NVLink is green, a path through PCIe switches blue, a longer path grey. Closer and wider links
// are darker.
std::string_view colour_of(const Link& link, bool widest) {
  if (link.nvlinks > 0) {
    return widest ? "#2f7d32" : "#7cb87f";
  }
  if (link.path >= PciePath::kPxb) {
    return link.path == PciePath::kPxb ? "#86a9d6" : "#3d6fb6";
  }
  return link.path >= PciePath::kNode ? "#a3a3b5" : "#dcdce4";
}

class Picture {
 public:
  explicit Picture(const TopoView& view, std::ostream& out) : view_(view), box_(view.topology), out_(out) {
    place_gpus();
    for (unsigned a = 1; a < box_.size(); ++a) {
      for (unsigned b = 0; b < a; ++b) {
        fastest_ = std::max(fastest_, topology::pair_mbps(box_, a, b));
        most_nvlinks_ = std::max<unsigned>(most_nvlinks_, box_.link(a, b).nvlinks);
        hub_ = hub_ || box_.link(a, b).nvswitch;
      }
    }
  }

  void draw() {
    const int lines = static_cast<int>(classes().size());
    const int height = std::max(660, 250 + 26 * lines);
    fmt::print(
        out_,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 {0}\" width=\"960\" height=\"{0}\" "
        "font-family=\"Helvetica, Arial, sans-serif\">\n"
        "<rect width=\"960\" height=\"{0}\" fill=\"#ffffff\"/>\n",
        height);
    text(40, 48, 20, "#22252b", "bold", short_title());
    draw_numa_nodes();
    draw_links();
    draw_hub();
    draw_ring();
    draw_gpus();
    draw_legend();
    out_ << "</svg>\n";
  }

 private:
  // Places the GPUs around the circle by NUMA node, with a gap between the nodes and the first GPU
  // at the upper left.
  void place_gpus() {
    for (unsigned gpu = 0; gpu < box_.size(); ++gpu) {
      numa_[box_.numa_node(gpu)].push_back(gpu);
    }
    const double gap = numa_.size() > 1 ? 0.7 : 0;
    const double slots = static_cast<double>(box_.size()) + gap * static_cast<double>(numa_.size());
    step_ = 2 * std::numbers::pi / std::max(slots, 1.0);
    double slot = 0.5 + gap / 2;
    angles_.resize(box_.size());
    for (const auto& [node, gpus] : numa_) {
      for (const unsigned gpu : gpus) {
        angles_[gpu] = -std::numbers::pi / 2 - std::numbers::pi / 2 + slot * step_;
        slot += 1;
      }
      slot += gap;
    }
    gpu_radius_ = std::clamp(kRadius * step_ * 0.36, 8.0, 27.0);
  }

  void text(double x, double y, int size, std::string_view colour, std::string_view weight,
            const std::string& words, std::string_view anchor = "start") {
    fmt::print(out_,
               "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" font-weight=\"{}\" "
               "text-anchor=\"{}\">{}</text>\n",
               x, y, size, colour, weight, anchor, escaped(words));
  }

  void draw_numa_nodes() {
    const double radius = kRadius + gpu_radius_ + 14;
    for (const auto& [node, gpus] : numa_) {
      if (numa_.size() < 2 && node < 0) {
        return;  // the NUMA nodes are unknown
      }
      const double from = angles_[gpus.front()] - step_ * 0.42;
      const double to = angles_[gpus.back()] + step_ * 0.42;
      const Point begin = at_angle(from, radius);
      const Point end = at_angle(to, radius);
      fmt::print(
          out_,
          "<path d=\"M {:.1f} {:.1f} A {:.1f} {:.1f} 0 {} 1 {:.1f} {:.1f}\" fill=\"none\" stroke=\"#c9ced8\" "
          "stroke-width=\"5\" stroke-linecap=\"round\"/>\n",
          begin.x, begin.y, radius, radius, to - from > std::numbers::pi ? 1 : 0, end.x, end.y);
      const double middle = (from + to) / 2;
      const Point label = at_angle(middle, radius + 20);
      const double side = std::cos(middle);
      const std::string_view anchor = side > 0.3 ? "start" : side < -0.3 ? "end" : "middle";
      text(label.x, label.y + 5, 14, "#5b6270", "normal", node < 0 ? "NUMA ?" : fmt::format("NUMA {}", node),
           anchor);
    }
  }

  [[nodiscard]] double width_of(Mbps mbps) const { return 1.0 + 6.0 * mbps / std::max<Mbps>(fastest_, 1); }

  // Shortens a long path at its start, because the end distinguishes files.
  [[nodiscard]] std::string short_title() const {
    constexpr std::size_t kMost = 72;
    return view_.title.size() <= kMost ? view_.title
                                       : "..." + view_.title.substr(view_.title.size() - kMost + 3);
  }

  [[nodiscard]] bool is_drawn(const Link& link) const {
    if (link.nvlinks > 0) {
      return !link.nvswitch;
    }
    // On a large machine most pairs have the slowest kind of link; drawing it would hide the
    // others.
    const PciePath far = box_.size() > topology::kExactGpus ? PciePath::kNode : PciePath::kSys;
    return link.path > far && !hub_;
  }

  void chord(unsigned a, unsigned b, std::string_view colour, double width, double opacity) {
    const Point from = at_angle(angles_[a], kRadius);
    const Point to = at_angle(angles_[b], kRadius);
    const Point pull{(from.x + to.x) / 2 * 0.72 + kCentreX * 0.28,
                     (from.y + to.y) / 2 * 0.72 + kCentreY * 0.28};
    fmt::print(out_,
               "<path d=\"M {:.1f} {:.1f} Q {:.1f} {:.1f} {:.1f} {:.1f}\" fill=\"none\" stroke=\"{}\" "
               "stroke-width=\"{:.1f}\" stroke-opacity=\"{:.2f}\" stroke-linecap=\"round\"/>\n",
               from.x, from.y, pull.x, pull.y, to.x, to.y, colour, width, opacity);
  }

  // Draws slow links first, so that fast links are on top.
  void draw_links() {
    std::vector<std::tuple<Mbps, unsigned, unsigned>> pairs;
    for (unsigned a = 1; a < box_.size(); ++a) {
      for (unsigned b = 0; b < a; ++b) {
        if (is_drawn(box_.link(a, b))) {
          pairs.emplace_back(topology::pair_mbps(box_, a, b), a, b);
        }
      }
    }
    std::ranges::sort(pairs);
    for (const auto& [mbps, a, b] : pairs) {
      const Link& link = box_.link(a, b);
      const bool faded = ((view_.taken >> a | view_.taken >> b) & 1U) != 0;
      chord(a, b, colour_of(link, link.nvlinks == most_nvlinks_), width_of(mbps), faded ? 0.25 : 0.9);
    }
  }

  void draw_hub() {
    if (!hub_) {
      return;
    }
    for (unsigned gpu = 0; gpu < box_.size(); ++gpu) {
      unsigned links = 0;
      for (unsigned peer = 0; peer < box_.size(); ++peer) {
        links = peer != gpu && box_.link(gpu, peer).nvswitch ? box_.link(gpu, peer).nvlinks : links;
      }
      if (links > 0) {
        const Point from = at_angle(angles_[gpu], kRadius);
        fmt::print(out_,
                   "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{}\" stroke=\"#2f7d32\" "
                   "stroke-width=\"{:.1f}\" stroke-opacity=\"{}\"/>\n",
                   from.x, from.y, kCentreX, kCentreY, box_.size() > 16 ? 2.5 : 5.0,
                   (view_.taken >> gpu & 1U) != 0 ? "0.2" : "0.75");
      }
    }
    fmt::print(out_, "<rect x=\"{}\" y=\"{}\" width=\"120\" height=\"44\" rx=\"10\" fill=\"#2f7d32\"/>\n",
               kCentreX - 60, kCentreY - 22);
    text(kCentreX, kCentreY + 5, 15, "#ffffff", "bold", "NVSwitch", "middle");
  }

  void draw_ring() {
    if (!view_.choice || hub_) {
      return;  // with a hub, every ring looks the same
    }
    const auto& ring = view_.choice->ring;
    const std::size_t hops = ring.size() == 2 ? 1 : ring.size();
    for (std::size_t i = 0; i < hops; ++i) {
      const unsigned next = ring[(i + 1) % ring.size()];
      chord(ring[i], next, "#e8871e", width_of(topology::pair_mbps(box_, ring[i], next)) + 1.5, 1);
    }
  }

  void draw_gpus() {
    for (unsigned gpu = 0; gpu < box_.size(); ++gpu) {
      const bool taken = (view_.taken >> gpu & 1U) != 0;
      const bool chosen = view_.choice && (view_.choice->set.gpus >> gpu & 1U) != 0;
      const Point at = at_angle(angles_[gpu], kRadius);
      const std::string_view fill = chosen ? "#e8871e" : taken ? "#e6e8ec" : "#ffffff";
      const std::string_view edge = chosen ? "#b5640c" : taken ? "#c2c6ce" : "#30353f";
      fmt::print(
          out_,
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"{}\" stroke=\"{}\" stroke-width=\"2\"/>\n",
          at.x, at.y, gpu_radius_, fill, edge);
      text(at.x, at.y + gpu_radius_ * 0.25, std::max(8, static_cast<int>(gpu_radius_ * 0.72)),
           chosen  ? "#ffffff"
           : taken ? "#9aa0ab"
                   : "#22252b",
           "bold", fmt::format("{}", gpu), "middle");
    }
  }

  struct LinkClass {
    Link link;
    Mbps mbps = 0;
    unsigned pairs = 0;
  };

  // Returns the kinds of links on this machine, fastest first.
  [[nodiscard]] std::vector<LinkClass> classes() const {
    std::map<std::pair<Mbps, std::string>, LinkClass, std::greater<>> found;
    for (unsigned a = 1; a < box_.size(); ++a) {
      for (unsigned b = 0; b < a; ++b) {
        const Mbps mbps = topology::pair_mbps(box_, a, b);
        LinkClass& one = found[{mbps, short_name(box_.link(a, b))}];
        one = {.link = box_.link(a, b), .mbps = mbps, .pairs = one.pairs + 1};
      }
    }
    std::vector<LinkClass> list;
    for (const auto& [key, one] : found) {
      list.push_back(one);
    }
    return list;
  }

  void draw_legend() {
    double y = 110;
    text(kLegendX, y, 13, "#5b6270", "bold", "LINKS, GB/s each way");
    for (const LinkClass& one : classes()) {
      y += 26;
      const bool drawn = is_drawn(one.link) || one.link.nvswitch;
      if (drawn) {
        fmt::print(out_,
                   "<line x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" stroke=\"{}\" "
                   "stroke-width=\"{:.1f}\" stroke-linecap=\"round\"/>\n",
                   kLegendX + 3, y - 5, kLegendX + 37, y - 5,
                   colour_of(one.link, one.link.nvlinks == most_nvlinks_),
                   one.link.nvswitch ? 5.0 : width_of(one.mbps));
      }
      text(kLegendX + 52, y, 14, "#22252b", "normal", short_name(one.link));
      text(kLegendX + 165, y, 14, "#22252b", "normal", gigabytes(one.mbps), "end");
      text(kLegendX + 180, y, 13, "#7a8190", "normal",
           fmt::format("{} pair{}{}", one.pairs, one.pairs == 1 ? "" : "s", drawn ? "" : ", not drawn"));
    }
    if (view_.choice) {
      draw_choice_legend(y + 44);
    }
  }

  void draw_choice_legend(double y) {
    const TopoView::Choice& choice = *view_.choice;
    text(kLegendX, y, 13, "#5b6270", "bold", fmt::format("CHOSEN BY {}", choice.policy));
    text(kLegendX, y + 28, 18, "#b5640c", "bold", fmt::format("GPU {}", topology::gpu_list(choice.set.gpus)));
    if (choice.set.ring_mbps > 0) {
      text(kLegendX, y + 54, 14, "#22252b", "normal",
           fmt::format("ring {} GB/s, best possible {}", gigabytes(choice.set.ring_mbps),
                       gigabytes(choice.set.ideal_mbps)));
    }
    if (view_.taken != 0) {
      text(kLegendX, y + 80, 14, "#7a8190", "normal",
           fmt::format("taken: GPU {}", topology::gpu_list(view_.taken)));
    }
  }

  const TopoView& view_;
  const Topology& box_;
  std::ostream& out_;
  std::map<std::int32_t, std::vector<unsigned>> numa_;
  std::vector<double> angles_;
  double step_ = 0;
  double gpu_radius_ = 0;
  Mbps fastest_ = 0;
  unsigned most_nvlinks_ = 0;
  bool hub_ = false;
};

}  // namespace

void print_topo_svg(const TopoView& view, std::ostream& out) {
  Picture(view, out).draw();
}

}  // namespace tessera::cli
