// The picture of `tessera savings -o svg`: for each node pool, one bar of its GPUs as they are used
// now, and one as they would be used with sharing.
#include <fmt/format.h>

#include <algorithm>

#include "cli/output/markup.h"
#include "cli/output/table.h"
#include "cli/savings/savings_words.h"

namespace tessera::cli {

namespace {

constexpr double kWidth = 1000;
constexpr double kMargin = 40;
constexpr double kBarLeft = 150;
constexpr double kBarWidth = 640;
constexpr double kBarHeight = 26;
constexpr double kGroupHeight = 118;
constexpr std::size_t kMostGroups = 12;
constexpr std::size_t kMostWarnings = 5;
constexpr std::size_t kNoteColumns = 132;  // characters of a line of small text
constexpr std::size_t kLeadColumns = 96;   // characters of a line below the title
constexpr std::size_t kTitleColumns = 62;

constexpr std::string_view kInk = "#1f2430";
constexpr std::string_view kGrey = "#5b6270";
constexpr std::string_view kWholeColour = "#30517f";
constexpr std::string_view kSharedColour = "#2e8b57";
constexpr std::string_view kAloneColour = "#a3d3b6";
constexpr std::string_view kIdleColour = "#e0a526";
constexpr std::string_view kFreeColour = "#e9ecf1";

// Cuts a name that is too long for its place.
std::string cut(const std::string& text, std::size_t most) {
  if (display_width(text) <= most) {
    return text;
  }
  std::string out;
  for (const char c : text) {
    const bool starts = (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    if (starts && display_width(out) == most - 1) {
      break;
    }
    out += c;
  }
  return out + "…";
}

struct Segment {
  std::int64_t gpus = 0;
  std::string_view fill{};
  std::string_view ink{};
};

class Picture {
 public:
  explicit Picture(const SavingsView& view) : view_(view), report_(view.report) {
    for (const SavingsGroup& group : report_.groups) {
      most_gpus_ = std::max(most_gpus_, group.gpus);
    }
  }

  std::string draw() {
    y_ = 56;
    for (const std::string& line : wrapped_lines(headline(view_), kTitleColumns)) {
      text(kMargin, y_, 27, kInk, line, "bold");
      y_ += 34;
    }
    for (const std::string& sentence : consequences(view_)) {
      for (const std::string& line : wrapped_lines(sentence, kLeadColumns)) {
        text(kMargin, y_, 17, kGrey, line);
        y_ += 24;
      }
    }
    y_ += 14;
    draw_legend();
    const std::size_t shown = std::min(report_.groups.size(), kMostGroups);
    for (std::size_t i = 0; i < shown; ++i) {
      draw_group(report_.groups[i]);
    }
    if (report_.groups.size() > shown) {
      text(kMargin, y_, 14, kGrey, fmt::format("and {} more pools", report_.groups.size() - shown));
      y_ += 26;
    }
    draw_notes();
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\">\n"
        "<title>{2}</title>\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#ffffff\"/>\n{3}</svg>\n",
        kWidth, y_ + 20, xml_text(headline(view_)), out_);
  }

 private:
  void text(double x, double y, int size, std::string_view colour, std::string_view words,
            std::string_view weight = "normal", std::string_view anchor = "start") {
    out_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" font-weight=\"{}\" "
        "text-anchor=\"{}\">{}"
        "</text>\n",
        x, y, size, colour, weight, anchor, xml_text(words));
  }

  void box(double x, double y, double width, double height, std::string_view fill) {
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" stroke=\"#ffffff\" "
        "stroke-width=\"1\"/>\n",
        x, y, width, height, fill);
  }

  void draw_legend() {
    double x = kMargin;
    const auto entry = [&](std::string_view fill, std::string_view words) {
      box(x, y_ - 12, 16, 16, fill);
      text(x + 22, y_ + 1, 14, kInk, words);
      x += 44 + 7.2 * static_cast<double>(words.size());
    };
    entry(kWholeColour, "one pod holds the whole GPU");
    if (report_.idle() > 0) {
      entry(kIdleColour, fmt::format("held, but idle (below {:g}%)", view_.rules.idle_utilization));
    }
    entry(kSharedColour, "shared by pods");
    if (std::ranges::any_of(report_.groups, [](const SavingsGroup& group) { return group.alone > 0; })) {
      entry(kAloneColour, "one pod, room for others");
    }
    entry(kFreeColour, "free");
    y_ += 40;
  }

  void draw_bar(double y, std::string_view name, const std::vector<Segment>& segments) {
    text(kBarLeft - 12, y + kBarHeight * 0.68, 14, kGrey, name, "normal", "end");
    double x = kBarLeft;
    for (const Segment& segment : segments) {
      const double width = kBarWidth * static_cast<double>(segment.gpus) /
                           static_cast<double>(std::max<std::int64_t>(most_gpus_, 1));
      if (segment.gpus <= 0) {
        continue;
      }
      box(x, y, width, kBarHeight, segment.fill);
      const std::string number = fmt::to_string(segment.gpus);
      if (width > 8 + 9 * static_cast<double>(number.size())) {
        text(x + width / 2, y + kBarHeight * 0.69, 14, segment.ink, number, "bold", "middle");
      }
      x += width;
    }
  }

  void draw_group(const SavingsGroup& group) {
    text(kMargin, y_, 17, kInk, cut(pool_text(group), 60), "bold");
    text(kBarLeft + kBarWidth, y_, 14, kGrey,
         fmt::format("{}, {}", counted_text(group.nodes, "node"), counted_text(group.gpus, "GPU")), "normal",
         "end");
    const std::int64_t idle = std::min(group.idle, group.held - group.shared_now);
    draw_bar(y_ + 12, "now",
             {{group.held - idle - group.shared_now, kWholeColour, "#ffffff"},
              {group.shared_now, kSharedColour, "#ffffff"},
              {idle, kIdleColour, kInk},
              {group.unallocated(), kFreeColour, kGrey}});
    draw_bar(y_ + 12 + kBarHeight + 8, "with sharing",
             {{group.whole, kWholeColour, "#ffffff"},
              {group.shared, kSharedColour, "#ffffff"},
              {group.alone, kAloneColour, kInk},
              {group.gpus - group.needed(), kFreeColour, kGrey}});
    const double right = kBarLeft + kBarWidth + 24;
    text(right, y_ + 38, 22, group.saved() > 0 ? kSharedColour : kGrey,
         fmt::format("{} → {}", group.held, group.needed()), "bold");
    text(right, y_ + 60, 13, kGrey, "GPUs held");
    if (!group.freed_nodes.empty()) {
      text(right, y_ + 78, 13, kGrey, counted_text(std::ssize(group.freed_nodes), "node") + " freed");
    }
    y_ += kGroupHeight;
  }

  void draw_notes() {
    y_ += 6;
    std::vector<std::string> warnings = warnings_shown(view_, kMostWarnings);
    for (std::string& line : warnings) {
      line.insert(0, "Warning: ");
    }
    for (const auto& lines : {warnings, confidence(view_), assumptions(view_), left_out(view_)}) {
      for (const std::string& sentence : lines) {
        for (const std::string& line : wrapped_lines(sentence, kNoteColumns)) {
          text(kMargin, y_, 12, kGrey, line);
          y_ += 17;
        }
      }
      y_ += lines.empty() ? 0 : 8;
    }
  }

  const SavingsView& view_;
  const SavingsReport& report_;
  std::int64_t most_gpus_ = 0;
  double y_ = 0;
  std::string out_;
};

}  // namespace

std::string savings_svg(const SavingsView& view) {
  return Picture(view).draw();
}

}  // namespace tessera::cli
