#include "extender/yaml_text.h"

#include <yaml-cpp/yaml.h>

#include <unordered_map>
#include <vector>

namespace tessera::extender {

namespace {

// The tags that yaml-cpp assigns to a quoted scalar and to other nodes without a tag.
constexpr const char* kQuoted = "!";
constexpr const char* kUntagged = "?";

class YamlWriter {
 public:
  explicit YamlWriter(const YAML::Node& root) {
    find_repeated(root);
    write(root);
  }
  [[nodiscard]] Result<std::string> text() const {
    // After an error, the emitter drops the rest of the output.
    return out_.good() ? Result<std::string>(out_.c_str()) : fail(ErrorCode::kInvalid, out_.GetLastError());
  }

 private:
  struct Seen {
    YAML::Node node;
    bool again = false;  // occurs more than once
    int anchor = 0;      // its number, once it has been written
  };

  // Only Node::is() can tell whether two nodes are the same. Compare only nodes with the same
  // position in the source. Nodes that were not parsed all have the same position, but there are
  // few of them.
  Seen* find(const YAML::Node& node) {
    for (Seen& seen : seen_[node.Mark().pos]) {
      if (seen.node.is(node)) {
        return &seen;
      }
    }
    return nullptr;
  }

  // Finds the nodes that occur more than once, because an anchor must be written before its
  // aliases. A node may contain itself.
  void find_repeated(const YAML::Node& node) {
    if (Seen* seen = find(node)) {
      seen->again = true;
      return;
    }
    seen_[node.Mark().pos].push_back({.node = node});
    for (const auto& child : node) {
      if (node.IsMap()) {
        find_repeated(child.first);
        find_repeated(child.second);
      } else {
        find_repeated(child);
      }
    }
  }

  void write(const YAML::Node& node) {
    Seen& seen = *find(node);
    if (seen.anchor > 0) {
      out_ << YAML::Alias(std::to_string(seen.anchor));
      return;
    }
    const std::string& tag = node.Tag();
    if (!tag.empty() && tag != kUntagged && tag != kQuoted) {
      out_ << YAML::VerbatimTag(tag);
    }
    if (seen.again) {
      seen.anchor = ++anchors_;
      out_ << YAML::Anchor(std::to_string(seen.anchor));
    }
    write_value(node);
  }

  void write_value(const YAML::Node& node) {
    if (node.IsScalar()) {
      if (node.Tag() == kQuoted) {
        out_ << YAML::DoubleQuoted;
      }
      out_ << node.Scalar();
    } else if (node.IsSequence()) {
      out_ << style_of(node) << YAML::BeginSeq;
      for (const auto& child : node) {
        write(child);
      }
      out_ << YAML::EndSeq;
    } else if (node.IsMap()) {
      out_ << style_of(node) << YAML::BeginMap;
      for (const auto& child : node) {
        out_ << YAML::Key;
        write(child.first);
        out_ << YAML::Value;
        write(child.second);
      }
      out_ << YAML::EndMap;
    } else {
      out_ << YAML::Null;
    }
  }

  static YAML::EMITTER_MANIP style_of(const YAML::Node& node) {
    return node.Style() == YAML::EmitterStyle::Flow ? YAML::Flow : YAML::Block;
  }

  YAML::Emitter out_;
  std::unordered_map<int, std::vector<Seen>> seen_;  // by position in the source
  int anchors_ = 0;
};

}  // namespace

Result<std::string> yaml_text(const YAML::Node& root) {
  return TRY(YamlWriter(root).text()) + "\n";
}

}  // namespace tessera::extender
