#include "extender/yaml_keys.h"

#include <fmt/core.h>

#include <set>

#include "base/strings.h"

namespace tessera::extender {

namespace {

// Aliases can make a small file very large.
constexpr std::size_t kMostNodes = 200'000;
constexpr int kDeepest = 100;

class KeyCheck {
 public:
  explicit KeyCheck(const std::string& name) : name_(name) {}

  Status check(const YAML::Node& node, int depth) {
    if (depth > kDeepest || ++nodes_ > kMostNodes) {
      return wrong(node, depth > kDeepest ? "is nested too deeply" : "has too many entries");
    }
    std::set<std::string> seen;
    for (const auto& entry : node) {
      if (!node.IsMap()) {
        TRY(check(entry, depth + 1));
        continue;
      }
      if (entry.first.IsScalar() && !seen.insert(entry.first.Scalar()).second) {
        return wrong(entry.first, fmt::format("{} is set twice", in_quotes(entry.first.Scalar())));
      }
      TRY(check(entry.second, depth + 1));
    }
    return {};
  }

 private:
  [[nodiscard]] Status wrong(const YAML::Node& node, const std::string& text) const {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}:{}:{}: {}", name_, node.Mark().line + 1, node.Mark().column + 1, text));
  }

  const std::string& name_;
  std::size_t nodes_ = 0;
};

}  // namespace

Status check_keys(const YAML::Node& root, const std::string& name) {
  return KeyCheck(name).check(root, 0);
}

}  // namespace tessera::extender
