// cli/machine/topo_panel_svg.h
//
// The parts of the picture of `tessera topo -o svg` that are not the circle: symbols of GPUs, the
// list of GPUs with their pods, the legend, and the style sheet for light and dark screens.
//
// The state of a GPU is shown by the shape of its symbol, so that it can be read without colours:
// an empty circle is free, a circle is filled in proportion to the memory that is held, a square is
// held whole, a dashed outline with a cross is unhealthy, and a second outline marks a chosen GPU.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "cli/machine/topo.h"
#include "topology/link.h"

namespace tessera::cli {

struct TextPlace {
  double x = 0;
  double y = 0;
  int size = 14;
  bool bold = false;
  std::string_view colour = "ink";    // a class of the style sheet
  std::string_view anchor = "start";  // or middle, end
};

// Writes the start tag, the style sheet and the background.
void begin_svg(std::ostream& out, double width, double height, const std::string& title);

// Writes text from any source: escapes markup, control characters and bytes that are not UTF-8.
void svg_text(std::ostream& out, const TextPlace& place, std::string_view words);

// Where to draw the symbol of a GPU.
struct SymbolPlace {
  double x = 0;
  double y = 0;
  double radius = 11;
  bool number = false;  // write the number of the GPU into the symbol
};
void draw_gpu(std::ostream& out, const TopoView& view, unsigned gpu, const SymbolPlace& place);

// Returns the class of the lines for a link. NVLink is green, a path through PCIe switches blue, a
// longer path grey. Closer and wider links stand out more.
std::string_view link_class(const topology::Link& link, unsigned most_nvlinks);
double link_width(topology::Mbps mbps, topology::Mbps fastest);

class TopoPanel {
 public:
  // `is_drawn` returns whether the circle has lines for a kind of link. The view must outlive the
  // panel.
  TopoPanel(const TopoView& view, unsigned most_nvlinks, topology::Mbps fastest,
            std::function<bool(const topology::Link&)> is_drawn);

  // Returns the vertical position of the lower edge of the panel.
  [[nodiscard]] double bottom() const;
  void draw(std::ostream& out) const;

 private:
  struct LinkKind {
    topology::Link link;
    topology::Mbps mbps = 0;
    unsigned pairs = 0;
  };
  // A kind of symbol that the picture has.
  struct Symbol {
    unsigned gpu = 0;  // an example
    std::string label;
  };

  // Each returns the vertical position below what it has drawn.
  double draw_all(std::ostream& out) const;
  double draw_gpus(std::ostream& out, double y) const;
  double draw_symbols(std::ostream& out, double y) const;
  double draw_links(std::ostream& out, double y) const;
  double draw_choice(std::ostream& out, double y) const;
  double draw_notes(std::ostream& out, double y) const;

  const TopoView& view_;
  unsigned most_nvlinks_;
  topology::Mbps fastest_;
  std::function<bool(const topology::Link&)> is_drawn_;
  std::vector<LinkKind> links_;  // fastest first
  std::vector<Symbol> symbols_;
};

}  // namespace tessera::cli
