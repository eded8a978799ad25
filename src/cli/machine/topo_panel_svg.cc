#include "cli/machine/topo_panel_svg.h"

#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <sstream>

#include "cli/output/markup.h"
#include "cli/output/safe_output.h"
#include "cli/output/table.h"
#include "topology/bandwidth.h"

namespace tessera::cli {

namespace {

using topology::GpuMask;
using topology::Link;
using topology::Mbps;
using topology::PciePath;

constexpr double kLeft = 630;
constexpr double kRight = 1080;
constexpr std::size_t kLineCharacters = 62;  // of text of size 13 between kLeft and kRight
constexpr std::size_t kNameCharacters = 40;
constexpr std::size_t kPodLines = 2;  // for the pods of one GPU
constexpr std::size_t kMostNoteLines = 8;

// Classes instead of colours in the elements, so that one picture suits light and dark screens.
constexpr std::string_view kStyle = R"(<style>
.bg{fill:#fff}.ink{fill:#22252b}.dim{fill:#5b6270}.inv{fill:#fff}.on{fill:#22252b}.bad{fill:#b3261e}.hi{fill:#a65a08}
.arc{stroke:#c9ced8}.ring{stroke:#e8871e}.hub{fill:#2f7d32}.halo{stroke:#fff}
.nv{stroke:#2f7d32}.nvs{stroke:#7cb87f}.pcie{stroke:#3d6fb6}.pcies{stroke:#86a9d6}.far{stroke:#a3a3b5}.sys{stroke:#dcdce4}
.gpu{fill:#fff;stroke:#30353f}.held{fill:#8fb7e8}.whole{fill:#30353f;stroke:#30353f}.taken{fill:#e6e8ec;stroke:#9aa0ab}
.chosen{fill:#e8871e;stroke:#a65a08}.mark{stroke:#a65a08}.cross{stroke:#b3261e}.track{fill:#e6e8ec}
@media (prefers-color-scheme:dark){
.bg{fill:#16191f}.ink{fill:#e6e8ec}.dim{fill:#a3abb8}.inv{fill:#16191f}.bad{fill:#ff9a91}.hi{fill:#f5a94f}
.arc{stroke:#4a5160}.hub{fill:#5fbf66}.halo{stroke:#16191f}
.nv{stroke:#5fbf66}.nvs{stroke:#3f7f45}.pcie{stroke:#7fb0f5}.pcies{stroke:#4a76b3}.far{stroke:#727988}.sys{stroke:#3a404c}
.gpu{fill:#16191f;stroke:#c9ced8}.held{fill:#3f6ea8}.whole{fill:#d3d8e0;stroke:#d3d8e0}.taken{fill:#2b303a;stroke:#727988}
.mark{stroke:#f5a94f}.cross{stroke:#ff9a91}.track{fill:#2b303a}
}</style>
)";

bool is_unhealthy(const TopoView& view, unsigned gpu) {
  return !view.uses.empty() && !view.uses[gpu].unhealthy.empty();
}

bool is_chosen(const TopoView& view, unsigned gpu) {
  return view.choice && (view.choice->set.gpus & topology::gpu_bit(gpu)) != 0;
}

// Returns what the symbol of the GPU says.
std::string label_of(const TopoView& view, unsigned gpu) {
  std::string label = is_chosen(view, gpu)                               ? "chosen"
                      : (view.taken & topology::gpu_bit(gpu)) == 0       ? "free"
                      : view.uses.empty() || view.uses[gpu].pods.empty() ? "taken"
                      : view.uses[gpu].state == GpuUse::State::kWhole    ? "whole"
                                                                         : "shared";
  if (is_unhealthy(view, gpu)) {
    return label == "whole" || label == "shared" ? label + ", unhealthy" : "unhealthy";
  }
  return label;
}

// Draws the part of the circle below its level: 0 is empty, 1 is full.
void draw_level(std::ostream& out, double x, double y, double radius, double level) {
  const double height = radius - 2 * radius * std::clamp(level, 0.0, 1.0);  // of the chord above the centre
  const double half = std::sqrt(std::max(radius * radius - height * height, 0.0));
  if (level >= 1) {
    fmt::print(out, "<circle class=\"held\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"/>\n", x, y, radius);
  } else if (level > 0) {
    fmt::print(out, "<path class=\"held\" d=\"M {:.1f} {:.1f} A {:.1f} {:.1f} 0 {} 0 {:.1f} {:.1f} Z\"/>\n",
               x - half, y + height, radius, radius, level > 0.5 ? 1 : 0, x + half, y + height);
  }
}

void draw_cross(std::ostream& out, double x, double y, double radius) {
  const double arm = radius * 0.95;
  fmt::print(out,
             "<path class=\"cross\" d=\"M {:.1f} {:.1f} L {:.1f} {:.1f} M {:.1f} {:.1f} L {:.1f} {:.1f}\" "
             "stroke-width=\"{:.1f}\"/>\n",
             x - arm, y - arm, x + arm, y + arm, x - arm, y + arm, x + arm, y - arm,
             std::max(1.5, radius / 10));
}

// Returns the pods of a GPU as far as they fit into `room` characters: "ml/a, ml/b and 3 more".
std::string pods_text(const GpuUse& use, std::size_t room) {
  std::string line;
  for (std::size_t i = 0; i < use.pods.size(); ++i) {
    const std::string name = shortened(printable(use.pods[i]), kNameCharacters);
    const std::size_t rest = use.pods.size() - i;
    const std::size_t more = rest > 1 ? 14 : 0;  // room for " and N more"
    if (!line.empty() && display_width(line) + 2 + display_width(name) + more > room) {
      return line + fmt::format(" and {} more", rest);
    }
    line += (line.empty() ? "" : ", ") + name;
  }
  return line;
}

}  // namespace

void begin_svg(std::ostream& out, double width, double height, const std::string& title) {
  fmt::print(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
             "height=\"{1:.0f}\" role=\"img\" font-family=\"Helvetica, Arial, sans-serif\">\n"
             "<title>{2}</title>\n{3}<rect class=\"bg\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n",
             width, height, xml_text(title), kStyle);
}

void svg_text(std::ostream& out, const TextPlace& place, std::string_view words) {
  fmt::print(out, "<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\"{}{}>{}</text>\n",
             place.colour, place.x, place.y, place.size, place.bold ? " font-weight=\"bold\"" : "",
             place.anchor == "start" ? "" : fmt::format(" text-anchor=\"{}\"", place.anchor),
             xml_text(words));
}

std::string_view link_class(const Link& link, unsigned most_nvlinks) {
  if (link.nvlinks > 0) {
    return link.nvlinks == most_nvlinks ? "nv" : "nvs";
  }
  if (link.path >= PciePath::kPxb) {
    return link.path == PciePath::kPxb ? "pcies" : "pcie";
  }
  return link.path >= PciePath::kNode ? "far" : "sys";
}

double link_width(Mbps mbps, Mbps fastest) {
  return 1.0 + 6.0 * mbps / std::max<Mbps>(fastest, 1);
}

void draw_gpu(std::ostream& out, const TopoView& view, unsigned gpu, const SymbolPlace& place) {
  const auto& [x, y, radius, number] = place;
  const std::string label = label_of(view, gpu);
  const bool whole = label.starts_with("whole");
  const bool shared = label.starts_with("shared");
  const bool chosen = is_chosen(view, gpu);
  const bool unhealthy = is_unhealthy(view, gpu);
  const std::string_view number_class = whole ? "inv" : chosen ? "on" : label == "taken" ? "dim" : "ink";
  out << "<g><title>" << xml_text(fmt::format("GPU {}: {}", gpu, label)) << "</title>\n";
  if (whole) {
    const double side = radius * 0.92;
    fmt::print(
        out,
        "<rect class=\"whole\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"3\"/>\n",
        x - side, y - side, 2 * side, 2 * side);
  } else {
    const std::string_view shape = chosen ? "chosen" : label == "taken" ? "taken" : "gpu";
    fmt::print(out, "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" stroke=\"none\"/>\n",
               shape, x, y, radius);
    if (shared) {
      const GpuUse& use = view.uses[gpu];
      draw_level(out, x, y, radius,
                 use.total == 0 ? 1 : static_cast<double>(use.held) / static_cast<double>(use.total));
    }
    fmt::print(out,
               "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" style=\"fill:none\" "
               "stroke-width=\"2\"{}/>\n",
               unhealthy ? "cross" : shape, x, y, radius, unhealthy ? " stroke-dasharray=\"4 3\"" : "");
  }
  if (unhealthy) {
    draw_cross(out, x, y, radius);
  }
  if (chosen) {
    fmt::print(out,
               "<circle class=\"mark\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"none\" "
               "stroke-width=\"1.5\"/>\n",
               x, y, radius + 4);
  }
  if (number) {
    fmt::print(out,
               "<text class=\"{}{}\" x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" font-weight=\"bold\" "
               "text-anchor=\"middle\"{}>{}</text>\n",
               number_class, unhealthy && !whole ? " halo" : "", x, y + radius * 0.25,
               std::max(8, static_cast<int>(radius * 0.72)),
               unhealthy && !whole ? " paint-order=\"stroke\" stroke-width=\"4\"" : "", gpu);
  }
  out << "</g>\n";
}

TopoPanel::TopoPanel(const TopoView& view, unsigned most_nvlinks, Mbps fastest,
                     std::function<bool(const Link&)> is_drawn)
    : view_(view), most_nvlinks_(most_nvlinks), fastest_(fastest), is_drawn_(std::move(is_drawn)) {
  const topology::Topology& box = view.topology;
  std::map<std::pair<Mbps, std::string>, LinkKind, std::greater<>> kinds;
  for (unsigned a = 1; a < box.size(); ++a) {
    for (unsigned b = 0; b < a; ++b) {
      const Mbps mbps = topology::pair_mbps(box, a, b);
      LinkKind& one = kinds[{mbps, short_name(box.link(a, b))}];
      one = {.link = box.link(a, b), .mbps = mbps, .pairs = one.pairs + 1};
    }
  }
  for (const auto& [key, one] : kinds) {
    links_.push_back(one);
  }
  for (unsigned gpu = 0; gpu < box.size(); ++gpu) {
    const std::string label = label_of(view, gpu);
    if (std::ranges::find(symbols_, label, &Symbol::label) == symbols_.end()) {
      symbols_.push_back({.gpu = gpu, .label = label});
    }
  }
}

double TopoPanel::draw_gpus(std::ostream& out, double y) const {
  if (view_.uses.empty()) {
    return y;
  }
  svg_text(out, {.x = kLeft, .y = y, .size = 13, .bold = true, .colour = "dim"}, "GPUS");
  svg_text(out, {.x = kRight, .y = y, .size = 13, .bold = true, .colour = "dim", .anchor = "end"},
           "MEMORY HELD");
  constexpr double kBarWidth = 90;
  constexpr double kBarLeft = kRight - 85 - kBarWidth;
  for (unsigned gpu = 0; gpu < view_.uses.size(); ++gpu) {
    const GpuUse& use = view_.uses[gpu];
    y += 30;
    draw_gpu(out, view_, gpu, {.x = kLeft + 11, .y = y - 5});
    svg_text(out, {.x = kLeft + 32, .y = y, .bold = true}, fmt::format("GPU {}", gpu));
    svg_text(out, {.x = kLeft + 92, .y = y, .size = 13, .colour = "dim"},
             shortened(printable(use.model), 25));
    const double part = use.total == 0 ? 0 : static_cast<double>(use.held) / static_cast<double>(use.total);
    for (const auto& [colour, width] :
         {std::pair("track", kBarWidth), std::pair("held", kBarWidth * std::clamp(part, 0.0, 1.0))}) {
      fmt::print(out,
                 "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"9\" rx=\"2\"/>\n",
                 colour, kBarLeft, y - 9, width);
    }
    svg_text(out, {.x = kRight, .y = y, .size = 13, .colour = part > 1 ? "bad" : "ink", .anchor = "end"},
             use.memory);
    const std::string_view state = use.state == GpuUse::State::kWhole ? "whole: " : "";
    if (!use.unhealthy.empty()) {
      y += 18;
      svg_text(out, {.x = kLeft + 32, .y = y, .size = 13, .colour = "bad"},
               shortened("unhealthy: " + printable(use.unhealthy), kLineCharacters));
    }
    for (const std::string& line :
         wrapped_lines(std::string(state) + pods_text(use, kPodLines * kLineCharacters), kLineCharacters)) {
      if (!use.pods.empty()) {
        y += 18;
        svg_text(out, {.x = kLeft + 32, .y = y, .size = 13}, line);
      }
    }
  }
  return y + 44;
}

double TopoPanel::draw_symbols(std::ostream& out, double y) const {
  if (symbols_.size() < 2 && view_.uses.empty()) {
    return y;  // all GPUs are free
  }
  svg_text(out, {.x = kLeft, .y = y, .size = 13, .bold = true, .colour = "dim"}, "SYMBOLS");
  double x = kLeft;
  y += 28;
  for (const Symbol& symbol : symbols_) {
    const std::string meaning =
        symbol.label == "shared" ? "shared, filled as far as its memory is held" : symbol.label;
    const double width = 34 + 7.2 * static_cast<double>(meaning.size()) + 14;
    if (x > kLeft && x + width > kRight + 14) {
      x = kLeft;
      y += 30;
    }
    draw_gpu(out, view_, symbol.gpu, {.x = x + 11, .y = y - 5});
    svg_text(out, {.x = x + 30, .y = y, .size = 13}, meaning);
    x += width;
  }
  return y + 44;
}

double TopoPanel::draw_links(std::ostream& out, double y) const {
  svg_text(out, {.x = kLeft, .y = y, .size = 13, .bold = true, .colour = "dim"}, "LINKS, GB/s each way");
  for (const LinkKind& one : links_) {
    y += 26;
    const bool drawn = is_drawn_(one.link);
    if (drawn) {
      fmt::print(out,
                 "<line class=\"{}\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" stroke-width=\"{:.1f}\" "
                 "stroke-linecap=\"round\"/>\n",
                 link_class(one.link, most_nvlinks_), kLeft + 3, y - 5, kLeft + 37, y - 5,
                 one.link.nvswitch ? 5.0 : link_width(one.mbps, fastest_));
    }
    svg_text(out, {.x = kLeft + 52, .y = y}, short_name(one.link));
    svg_text(out, {.x = kLeft + 165, .y = y, .anchor = "end"}, gigabytes(one.mbps));
    svg_text(out, {.x = kLeft + 180, .y = y, .size = 13, .colour = "dim"},
             fmt::format("{} pair{}{}", one.pairs, one.pairs == 1 ? "" : "s", drawn ? "" : ", not drawn"));
  }
  return y + 44;
}

double TopoPanel::draw_choice(std::ostream& out, double y) const {
  if (!view_.choice) {
    return y;
  }
  const TopoView::Choice& choice = *view_.choice;
  svg_text(out, {.x = kLeft, .y = y, .size = 13, .bold = true, .colour = "dim"},
           fmt::format("CHOSEN BY {}", choice.policy));
  y += 28;
  svg_text(out, {.x = kLeft, .y = y, .size = 18, .bold = true, .colour = "hi"},
           fmt::format("GPU {}", topology::gpu_list(choice.set.gpus)));
  if (choice.set.ring_mbps > 0) {
    y += 26;
    svg_text(out, {.x = kLeft, .y = y},
             fmt::format("ring {} GB/s, best possible {}", gigabytes(choice.set.ring_mbps),
                         gigabytes(choice.set.ideal_mbps)));
  }
  if (view_.taken != 0) {
    y += 26;
    svg_text(out, {.x = kLeft, .y = y, .colour = "dim"},
             fmt::format("taken: GPU {}", topology::gpu_list(view_.taken)));
  }
  return y + 44;
}

double TopoPanel::draw_notes(std::ostream& out, double y) const {
  std::size_t lines = 0;
  for (const std::string& note : view_.notes) {
    for (const std::string& line : wrapped_lines(printable(note), kLineCharacters)) {
      if (lines == kMostNoteLines) {
        svg_text(out, {.x = kLeft, .y = y, .size = 13, .colour = "dim"}, "More notes: tessera topo -o text");
        return y + 26;
      }
      svg_text(out, {.x = kLeft, .y = y, .size = 13, .colour = "bad"}, line);
      y += 18;
      ++lines;
    }
  }
  return y;
}

double TopoPanel::draw_all(std::ostream& out) const {
  return draw_notes(out, draw_choice(out, draw_links(out, draw_symbols(out, draw_gpus(out, 110)))));
}

double TopoPanel::bottom() const {
  std::ostringstream nowhere;
  return draw_all(nowhere);
}

void TopoPanel::draw(std::ostream& out) const {
  draw_all(out);
}

}  // namespace tessera::cli
