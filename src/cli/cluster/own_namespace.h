// cli/cluster/own_namespace.h
//
// Finds the namespace in which Tessera runs. Its pods are found by their labels, but every user who
// may create pods can set these labels. So only the pods of one namespace are trusted.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::cli {

// Counts the pods with Tessera's labels, by namespace.
class OwnNamespace {
 public:
  // `wanted` is the user's choice; empty: none.
  explicit OwnNamespace(std::string wanted) : wanted_(std::move(wanted)) {}

  void add_placer(const std::string& namespace_name) { ++placers_[namespace_name]; }
  void add_agent(const std::string& namespace_name) { ++agents_[namespace_name]; }

  // Returns the user's choice. Without one, the candidates are the namespaces of schedulers and
  // extenders or, if there are none, those of agents. Returns tessera-system or kube-system if it
  // is a candidate, otherwise the candidate with the most pods. Returns "" if there is none.
  [[nodiscard]] std::string name() const;
  // Returns a sentence about the other namespaces with such pods; "" if there are none.
  [[nodiscard]] std::string warning() const;

 private:
  std::string wanted_;
  std::map<std::string, std::size_t> placers_;
  std::map<std::string, std::size_t> agents_;
};

}  // namespace tessera::cli
