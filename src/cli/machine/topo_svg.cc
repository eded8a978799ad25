// The picture of `tessera topo -o svg`: GPUs on a circle, grouped by NUMA node. Links are chords
// whose width shows their speed, NVSwitches are a hub. Chosen GPUs and their ring are highlighted.
// The panel next to the circle (topo_panel_svg.cc) lists the GPUs with their pods.
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <ostream>

#include "cli/machine/topo.h"
#include "cli/machine/topo_panel_svg.h"
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
constexpr double kWidth = 1120;
constexpr double kLeastHeight = 660;

struct Point {
  double x = 0;
  double y = 0;
};

Point at_angle(double angle, double radius) {
  return {kCentreX + radius * std::cos(angle), kCentreY + radius * std::sin(angle)};
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
    const TopoPanel panel(view_, most_nvlinks_, fastest_,
                          [this](const Link& link) { return is_drawn(link) || link.nvswitch; });
    begin_svg(out_, kWidth, std::max(kLeastHeight, panel.bottom() + 30), view_.title);
    svg_text(out_, {.x = 40, .y = 48, .size = 20, .bold = true}, short_title());
    draw_numa_nodes();
    draw_links();
    draw_hub();
    draw_ring();
    for (unsigned gpu = 0; gpu < box_.size(); ++gpu) {
      const Point at = at_angle(angles_[gpu], kRadius);
      draw_gpu(out_, view_, gpu, {.x = at.x, .y = at.y, .radius = gpu_radius_, .number = true});
    }
    panel.draw(out_);
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
          "<path class=\"arc\" d=\"M {:.1f} {:.1f} A {:.1f} {:.1f} 0 {} 1 {:.1f} {:.1f}\" fill=\"none\" "
          "stroke-width=\"5\" stroke-linecap=\"round\"/>\n",
          begin.x, begin.y, radius, radius, to - from > std::numbers::pi ? 1 : 0, end.x, end.y);
      const double middle = (from + to) / 2;
      const Point label = at_angle(middle, radius + 20);
      const double side = std::cos(middle);
      const std::string_view anchor = side > 0.3 ? "start" : side < -0.3 ? "end" : "middle";
      svg_text(out_, {.x = label.x, .y = label.y + 5, .colour = "dim", .anchor = anchor},
               node < 0 ? "NUMA ?" : fmt::format("NUMA {}", node));
    }
  }

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
               "<path class=\"{}\" d=\"M {:.1f} {:.1f} Q {:.1f} {:.1f} {:.1f} {:.1f}\" fill=\"none\" "
               "stroke-width=\"{:.1f}\" stroke-opacity=\"{:.2f}\" stroke-linecap=\"round\"/>\n",
               colour, from.x, from.y, pull.x, pull.y, to.x, to.y, width, opacity);
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
      chord(a, b, link_class(link, most_nvlinks_), link_width(mbps, fastest_), faded ? 0.25 : 0.9);
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
                   "<line class=\"nv\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{}\" "
                   "stroke-width=\"{:.1f}\" stroke-opacity=\"{}\"/>\n",
                   from.x, from.y, kCentreX, kCentreY, box_.size() > 16 ? 2.5 : 5.0,
                   (view_.taken >> gpu & 1U) != 0 ? "0.2" : "0.75");
      }
    }
    fmt::print(out_, "<rect class=\"hub\" x=\"{}\" y=\"{}\" width=\"120\" height=\"44\" rx=\"10\"/>\n",
               kCentreX - 60, kCentreY - 22);
    svg_text(
        out_,
        {.x = kCentreX, .y = kCentreY + 5, .size = 15, .bold = true, .colour = "inv", .anchor = "middle"},
        "NVSwitch");
  }

  void draw_ring() {
    if (!view_.choice || hub_) {
      return;  // with a hub, every ring looks the same
    }
    const auto& ring = view_.choice->ring;
    const std::size_t hops = ring.size() == 2 ? 1 : ring.size();
    for (std::size_t i = 0; i < hops; ++i) {
      const unsigned next = ring[(i + 1) % ring.size()];
      chord(ring[i], next, "ring", link_width(topology::pair_mbps(box_, ring[i], next), fastest_) + 1.5, 1);
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
