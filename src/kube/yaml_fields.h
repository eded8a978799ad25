// kube/yaml_fields.h
//
// Reads the fields of a YAML mapping strictly. Errors name the file and the field. Only for the .cc
// files that parse a kubeconfig.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::kube {

class YamlFields {
 public:
  // `where` is the prefix of error messages: "/root/.kube/config: users \"red\"".
  static Result<YamlFields> of(const YAML::Node& node, std::string where);

  // Return the value of a field, or an empty value if the field is missing or null. Return kInvalid
  // if the field has another type.
  [[nodiscard]] Result<std::string> text(const char* key) const;
  [[nodiscard]] Result<bool> boolean(const char* key) const;
  [[nodiscard]] Result<std::vector<std::string>> texts(const char* key) const;
  [[nodiscard]] Result<std::vector<YAML::Node>> list(const char* key) const;
  [[nodiscard]] bool has(const char* key) const;
  [[nodiscard]] YAML::Node node(const char* key) const;
  [[nodiscard]] Result<YamlFields> mapping(const char* key) const;

  [[nodiscard]] const std::string& where() const { return where_; }
  // Returns kInvalid with the message "<where>.<key> <reason>".
  [[nodiscard]] Error wrong(const char* key, const std::string& reason) const;

 private:
  YamlFields(const YAML::Node& node, std::string where) : node_(node), where_(std::move(where)) {}

  YAML::Node node_;
  std::string where_;
};

// Converts the node to JSON, for an extension of a kubeconfig. Returns kInvalid if the node is
// nested too deeply or is too large.
Result<std::string> yaml_to_json(const YAML::Node& node, const std::string& where);

}  // namespace tessera::kube
