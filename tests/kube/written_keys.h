// tests/kube/written_keys.h
//
// Compares what Tessera's programs write to Nodes and pods with deploy/helm/tessera/files/keys.json,
// from which the chart makes its admission policies. The fake API server rejects other writes, as a
// cluster with the chart does.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

namespace tessera::kube {

// A patch of a Node or pod, or a Binding.
struct Write {
  std::string_view user_agent;  // "tessera-agent/0.1.0"
  std::string_view resource;    // "nodes" or "pods"
  const boost::json::value& body;
};

// Returns the first change that keys.json does not allow to the program, such as "annotation x of
// nodes"; empty if it allows all. Clients other than tessera-agent and tessera-extender may write
// anything.
std::string foreign_change(const Write& write);

}  // namespace tessera::kube
