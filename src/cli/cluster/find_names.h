// cli/cluster/find_names.h
//
// The names that shell completion offers: nodes, pods and namespaces of the cluster, and contexts
// of the kubeconfig. The API server is asked for tables without objects, as `kubectl get` does, so
// that the answer is small.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command/completion.h"

namespace tessera::cli {

// Returns the names in their order in the cluster, at most kMostNames. Returns nothing on any
// failure. Leaves out names that a shell could interpret; no valid object has one.
std::vector<std::string> find_names(const NameQuery& query);
inline constexpr std::size_t kMostNames = 5000;

// Returns whether a shell takes `name` literally.
bool is_safe_name(std::string_view name);

// Ends the process with code 0 after this time, whatever it waits for.
void end_process_after(std::chrono::seconds time);

}  // namespace tessera::cli
