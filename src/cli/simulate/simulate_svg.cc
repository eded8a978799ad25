// The chart of `tessera simulate -o svg`: allocated and fragmented capacity over the offered load.
// Each line is the mean of one policy's runs. Lines of Tessera's policies are thick, the others are
// thin.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cli/simulate/simulate.h"

namespace tessera::cli {

namespace {

using sim::LoadPoint;

constexpr double kWidth = 980;
constexpr double kHeight = 860;
constexpr double kLeft = 74;
constexpr double kRight = 770;  // right edge of the panels; the policy names follow
constexpr double kLabelGap = 17;

// Distinguishable with most kinds of colour blindness (the palette of Okabe and Ito, and two more).
constexpr std::array kOurColours = {"#0b6e4f", "#1f5fa8", "#b5179e"};
constexpr std::array kTheirColours = {"#d55e00", "#e69f00", "#7a5195", "#56b4e9",
                                      "#a0522d", "#6b7280", "#9aa0a6"};

struct Line {
  std::string name;
  std::string colour;
  double width = 1.6;
  std::vector<LoadPoint> points;
};

std::vector<Line> lines_of(const Simulation& simulation) {
  std::vector<Line> lines;
  std::size_t ours = 0;
  std::size_t theirs = 0;
  for (const sim::PolicyResult& policy : simulation.result.policies) {
    Line line;
    line.name = policy.policy.name;
    line.width = policy.policy.reference ? 1.6 : 3;
    line.colour = policy.policy.reference ? kTheirColours[theirs++ % kTheirColours.size()]
                                          : kOurColours[ours++ % kOurColours.size()];
    line.points = policy.mean_curve();
    lines.push_back(std::move(line));
  }
  return lines;
}

// One diagram with its coordinate system.
struct Panel {
  std::string title;
  std::string about;
  double top = 0;
  double bottom = 0;
  double LoadPoint::* field = nullptr;
  double x_min = 0, x_max = 1, y_min = 0, y_max = 1;

  [[nodiscard]] double x(double value) const {
    return kLeft + (value - x_min) / (x_max - x_min) * (kRight - kLeft);
  }
  [[nodiscard]] double y(double value) const {
    return bottom - (value - y_min) / (y_max - y_min) * (bottom - top);
  }
};

// Returns the distance between about `count` grid lines: 1, 2 or 5 times a power of ten.
double nice_step(double span, int count) {
  const double rough = span / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) {
      return factor * power;
    }
  }
  return 10 * power;
}

double last_load(const std::vector<Line>& lines) {
  double last = 1;
  for (const Line& line : lines) {
    for (const LoadPoint& point : line.points) {
      last = std::max(last, static_cast<double>(point.load_percent));
    }
  }
  return last;
}

// Returns the load at which the chart starts. All lines are equal until policies refuse pods, so
// the chart starts a little before the load at which half of the policies do.
double first_differences(const std::vector<Line>& lines, double last) {
  std::vector<double> firsts;
  for (const Line& line : lines) {
    const auto lags = [](const LoadPoint& point) {
      return point.allocated_percent < point.load_percent - 1.5;
    };
    const auto first = std::ranges::find_if(line.points, lags);
    firsts.push_back(first == line.points.end() ? last : first->load_percent);
  }
  if (firsts.empty()) {
    return 0;
  }
  const auto middle = firsts.begin() + static_cast<std::ptrdiff_t>(firsts.size() / 2);
  std::ranges::nth_element(firsts, middle);
  return std::max(0.0, std::floor((*middle - 10) / 10) * 10);
}

void fit_y(Panel& panel, const std::vector<Line>& lines, bool from_zero) {
  double low = 100;
  double high = 0;
  for (const Line& line : lines) {
    for (const LoadPoint& point : line.points) {
      if (point.load_percent >= panel.x_min) {
        low = std::min(low, point.*panel.field);
        high = std::max(high, point.*panel.field);
      }
    }
  }
  const double step = nice_step(std::max(high - (from_zero ? 0 : low), 1.0), 6);
  panel.y_min = from_zero ? 0 : std::floor(low / step) * step;
  panel.y_max = std::max(std::ceil(high / step) * step, panel.y_min + step);
}

void print_axes(const Panel& panel, std::ostream& out) {
  out << fmt::format("<text x=\"{}\" y=\"{}\" class=\"title\">{}</text>\n", kLeft, panel.top - 30,
                     panel.title);
  out << fmt::format("<text x=\"{}\" y=\"{}\" class=\"about\">{}</text>\n", kLeft, panel.top - 12,
                     panel.about);
  const double y_step = nice_step(panel.y_max - panel.y_min, 6);
  for (double value = panel.y_min; value <= panel.y_max + y_step / 1000; value += y_step) {
    out << fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" class=\"grid\"/>\n", kLeft,
                       kRight, panel.y(value), panel.y(value));
    out << fmt::format("<text x=\"{}\" y=\"{:.1f}\" class=\"tick\" text-anchor=\"end\">{:g}%</text>\n",
                       kLeft - 8, panel.y(value) + 4, value);
  }
  const double x_step = nice_step(panel.x_max - panel.x_min, 8);
  const double x_first = std::ceil(panel.x_min / x_step) * x_step;
  for (double value = x_first; value <= panel.x_max + x_step / 1000; value += x_step) {
    out << fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\" class=\"mark\"/>\n",
                       panel.x(value), panel.x(value), panel.bottom, panel.bottom + 5);
    out << fmt::format("<text x=\"{:.1f}\" y=\"{}\" class=\"tick\" text-anchor=\"middle\">{:g}%</text>\n",
                       panel.x(value), panel.bottom + 20, value);
  }
  out << fmt::format(
      "<text x=\"{:.1f}\" y=\"{}\" class=\"about\" text-anchor=\"middle\">GPUs requested so far, as a share "
      "of all GPUs</text>\n",
      (kLeft + kRight) / 2, panel.bottom + 40);
}

void print_line(const Panel& panel, const Line& line, std::ostream& out) {
  std::string points;
  for (const LoadPoint& point : line.points) {
    if (point.load_percent >= panel.x_min) {
      points += fmt::format("{:.1f},{:.1f} ", panel.x(point.load_percent), panel.y(point.*panel.field));
    }
  }
  out << fmt::format("<polyline points=\"{}\" stroke=\"{}\" stroke-width=\"{}\" class=\"line\"/>\n", points,
                     line.colour, line.width);
}

// Prints the policy names at the ends of the lines, moved apart where they would overlap.
void print_labels(const Panel& panel, const std::vector<Line>& lines, std::ostream& out) {
  struct Label {
    const Line* line = nullptr;
    double value = 0;
    double y = 0;
  };
  std::vector<Label> labels;
  for (const Line& line : lines) {
    if (!line.points.empty()) {
      const double value = line.points.back().*panel.field;
      labels.push_back({.line = &line, .value = value, .y = panel.y(value)});
    }
  }
  std::ranges::sort(labels, {}, [](const Label& label) { return std::pair(label.y, label.line); });
  for (std::size_t i = 1; i < labels.size(); ++i) {
    labels[i].y = std::max(labels[i].y, labels[i - 1].y + kLabelGap);
  }
  // Move labels below the bottom edge up again.
  double limit = panel.bottom + 4;
  for (std::size_t i = labels.size(); i-- > 0;) {
    labels[i].y = std::min(labels[i].y, limit);
    limit = labels[i].y - kLabelGap;
  }
  for (const Label& label : labels) {
    const double end = panel.x(label.line->points.back().load_percent);
    out << fmt::format("<path d=\"M{:.1f},{:.1f} L{:.1f},{:.1f}\" stroke=\"{}\" class=\"leader\"/>\n",
                       end + 3, panel.y(label.value), kRight + 22, label.y, label.line->colour);
    out << fmt::format("<text x=\"{}\" y=\"{:.1f}\" class=\"name\" fill=\"{}\"{}>{}</text>\n", kRight + 28,
                       label.y + 4, label.line->colour, label.line->width > 2 ? " font-weight=\"700\"" : "",
                       label.line->name);
    out << fmt::format(
        "<text x=\"{}\" y=\"{:.1f}\" class=\"name\" fill=\"{}\" text-anchor=\"end\">{:.1f}%</text>\n",
        kWidth - 24, label.y + 4, label.line->colour, label.value);
  }
}

constexpr std::string_view kStyle = R"(<style>
text { font-family: "Inter", "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; }
.head { font-size: 20px; font-weight: 700; fill: #1b1f24; }
.title { font-size: 15px; font-weight: 700; fill: #1b1f24; }
.about { font-size: 12.5px; fill: #57606a; }
.tick { font-size: 12px; fill: #57606a; }
.name { font-size: 13px; }
.grid { stroke: #e4e7eb; stroke-width: 1; }
.mark { stroke: #9aa0a6; stroke-width: 1; }
.line { fill: none; stroke-linejoin: round; stroke-linecap: round; }
.leader { stroke-width: 1; stroke-opacity: 0.45; fill: none; }
.ideal { stroke: #9aa0a6; stroke-width: 1.2; stroke-dasharray: 4 4; }
</style>
)";

}  // namespace

void print_simulation_svg(const Simulation& simulation, std::ostream& out) {
  const std::vector<Line> lines = lines_of(simulation);
  const double last = last_load(lines);
  Panel allocated{
      .title = "Allocated",
      .about = "Share of all GPU capacity allocated to pods; the dashed line is the requested share",
      .top = 130,
      .bottom = 410,
      .field = &LoadPoint::allocated_percent};
  allocated.x_min = first_differences(lines, last);
  allocated.x_max = std::max(last, allocated.x_min + 1);
  fit_y(allocated, lines, false);
  Panel fragmented{.title = "Fragmented",
                   .about = "Share of all GPU capacity that is free but that typical pods cannot use",
                   .top = 530,
                   .bottom = 800,
                   .field = &LoadPoint::fragmented_percent};
  fragmented.x_max = std::max(last, 1.0);
  fit_y(fragmented, lines, true);

  const std::size_t runs = simulation.result.options.seeds.size();
  out << fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" "
      "role=\"img\" aria-label=\"Allocation and fragmentation by policy\">\n",
      kWidth, kHeight, kWidth, kHeight);
  out << kStyle << "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  out << fmt::format(
      "<text x=\"{}\" y=\"44\" class=\"head\">How much GPU capacity each policy allocates</text>\n", kLeft);
  out << fmt::format(
      "<text x=\"{}\" y=\"66\" class=\"about\">{} nodes, {} GPUs; {}. Thick lines: Tessera.</text>\n", kLeft,
      simulation.nodes, simulation.gpus, runs == 1 ? "one run" : fmt::format("mean of {} runs", runs));
  for (const Panel* panel : {&std::as_const(allocated), &std::as_const(fragmented)}) {
    print_axes(*panel, out);
  }
  // The line on which every request is allocated, up to the edge of the panel.
  const double from = std::max(allocated.x_min, allocated.y_min);
  const double to = std::min(allocated.x_max, allocated.y_max);
  if (to > from) {
    out << fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"ideal\"/>\n",
                       allocated.x(from), allocated.y(from), allocated.x(to), allocated.y(to));
  }
  for (const Panel* panel : {&std::as_const(allocated), &std::as_const(fragmented)}) {
    // Draw Tessera's policies last, so that they are on top.
    for (const bool thick : {false, true}) {
      for (const Line& line : lines) {
        if ((line.width > 2) == thick) {
          print_line(*panel, line, out);
        }
      }
    }
    print_labels(*panel, lines, out);
  }
  out << "</svg>\n";
}

}  // namespace tessera::cli
