#include "kube/yaml_fields.h"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "base/strings.h"

namespace tessera::kube {

namespace {

constexpr int kMaxDepth = 16;
constexpr int kMaxNodes = 4096;

bool absent(const YAML::Node& node) {
  return !node.IsDefined() || node.IsNull();
}

boost::json::value scalar_to_json(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  // A quoted scalar (tag "!") is always text.
  if (node.Tag() != "!") {
    if (text == "true" || text == "false") {
      return text == "true";
    }
    if (const auto number = parse_int(text)) {
      return *number;
    }
  }
  return boost::json::value(text);
}

// Counts the nodes, because aliases can turn a small text into a huge tree.
Result<boost::json::value> to_json(const YAML::Node& node, int depth, int& budget) {
  if (depth > kMaxDepth || --budget < 0) {
    return fail(ErrorCode::kInvalid, "is too deep or too large");
  }
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      return scalar_to_json(node);
    case YAML::NodeType::Sequence: {
      boost::json::array array;
      for (const YAML::Node& item : node) {
        array.push_back(TRY(to_json(item, depth + 1, budget)));
      }
      return boost::json::value(std::move(array));
    }
    case YAML::NodeType::Map: {
      boost::json::object object;
      for (const auto& field : node) {
        if (!field.first.IsScalar()) {
          return fail(ErrorCode::kInvalid, "has a key that is not text");
        }
        object[field.first.Scalar()] = TRY(to_json(field.second, depth + 1, budget));
      }
      return boost::json::value(std::move(object));
    }
    default:
      return boost::json::value(nullptr);
  }
}

}  // namespace

Result<YamlFields> YamlFields::of(const YAML::Node& node, std::string where) {
  if (!node.IsDefined() || (!node.IsMap() && !node.IsNull())) {
    return fail(ErrorCode::kInvalid, where + " is not a mapping");
  }
  return YamlFields(node, std::move(where));
}

bool YamlFields::has(const char* key) const {
  return !absent(node(key));
}

YAML::Node YamlFields::node(const char* key) const {
  return node_.IsMap() ? node_[key] : YAML::Node(YAML::NodeType::Null);
}

Result<std::string> YamlFields::text(const char* key) const {
  const YAML::Node value = node(key);
  if (absent(value)) {
    return std::string();
  }
  if (!value.IsScalar()) {
    return fail(wrong(key, "is not text"));
  }
  return value.Scalar();
}

Result<bool> YamlFields::boolean(const char* key) const {
  const std::string value = TRY(text(key));
  if (value.empty() || value == "false") {
    return false;
  }
  if (value == "true") {
    return true;
  }
  return fail(wrong(key, "is " + in_quotes(value) + "; write true or false"));
}

Result<std::vector<YAML::Node>> YamlFields::list(const char* key) const {
  const YAML::Node value = node(key);
  std::vector<YAML::Node> items;
  if (absent(value)) {
    return items;
  }
  if (!value.IsSequence()) {
    return fail(wrong(key, "is not a list"));
  }
  for (const YAML::Node& item : value) {
    items.push_back(item);
  }
  return items;
}

Result<std::vector<std::string>> YamlFields::texts(const char* key) const {
  std::vector<std::string> values;
  for (const YAML::Node& item : TRY(list(key))) {
    if (!item.IsScalar()) {
      return fail(wrong(key, "contains an element that is not text"));
    }
    values.push_back(item.Scalar());
  }
  return values;
}

Result<YamlFields> YamlFields::mapping(const char* key) const {
  return of(has(key) ? node(key) : YAML::Node(YAML::NodeType::Null), where_ + "." + key);
}

Error YamlFields::wrong(const char* key, const std::string& reason) const {
  return {ErrorCode::kInvalid, where_ + "." + key + " " + reason};
}

Result<std::string> yaml_to_json(const YAML::Node& node, const std::string& where) {
  int budget = kMaxNodes;
  return boost::json::serialize(TRY(with_context(to_json(node, 0, budget), where)));
}

}  // namespace tessera::kube
