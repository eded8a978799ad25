// kube/yaml_fields.h
//
// Reads the fields of one YAML mapping strictly, naming file and field when something is wrong. Only for the
// .cc files that parse kubeconfig.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::kube {

class YamlFields {
 public:
  // `where` leads the messages: "/root/.kube/config: users \"red\"".
  static Result<YamlFields> of(const YAML::Node& node, std::string where);

  // Missing and null are the empty value everywhere below.
  [[nodiscard]] Result<std::string> text(const char* key) const;
  [[nodiscard]] Result<bool> boolean(const char* key) const;
  [[nodiscard]] Result<std::vector<std::string>> texts(const char* key) const;
  [[nodiscard]] Result<std::vector<YAML::Node>> list(const char* key) const;
  [[nodiscard]] bool has(const char* key) const;
  [[nodiscard]] YAML::Node node(const char* key) const;
  [[nodiscard]] Result<YamlFields> mapping(const char* key) const;

  [[nodiscard]] const std::string& where() const { return where_; }
  // kInvalid: "<where>.<key> <why>".
  [[nodiscard]] Error wrong(const char* key, const std::string& why) const;

 private:
  YamlFields(const YAML::Node& node, std::string where) : node_(node), where_(std::move(where)) {}

  YAML::Node node_;
  std::string where_;
};

// The node as JSON text; kInvalid when it is deeper or larger than any sane extension.
Result<std::string> yaml_to_json(const YAML::Node& node, const std::string& where);

}  // namespace tessera::kube
